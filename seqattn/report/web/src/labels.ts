// Positions of the labels of horizontal lines.

export type Side = "left" | "right";
export type Anchor = "bottom" | "top";
export type LabelPosition = [side: Side, anchor: Anchor];

/** The share of an axis that a label occupies. */
const LABEL_HEIGHT = 0.07;

/** Return the positions of the labels of lines. Each label gets the first free position of its line, so the labels do not overlap.
 *
 * @param levels - The height of each line, in the coordinates of the axis.
 * @param others - Further heights on the axis, which extend the range of the axis.
 * @param sides - The sides of a line on which a label may be, in order of preference.
 */
export function labelPositions(levels: readonly number[], others: readonly number[], sides: readonly Side[]): LabelPosition[] {
  const every = [...levels, ...others];
  const high = LABEL_HEIGHT * (Math.max(...every) - Math.min(...every));
  const free = sides.flatMap((side) => (["bottom", "top"] as const).map((anchor): LabelPosition => [side, anchor]));
  const taken: [Side, number][] = [];
  const found = new Map<number, LabelPosition[]>();
  // The lines are processed from top to bottom. Of two close lines, the upper line has its label above, and the lower line has its label below.
  for (const level of [...levels].sort((a, b) => b - a)) {
    const middle = (anchor: Anchor): number => level + (anchor === "bottom" ? high / 2 : -high / 2);
    const isFree = ([side, anchor]: LabelPosition): boolean =>
      taken.every(([takenSide, at]) => takenSide !== side || Math.abs(at - middle(anchor)) >= 0.99 * high);
    const [side, anchor] = free.find(isFree) ?? free[0];
    taken.push([side, middle(anchor)]);
    found.set(level, [...(found.get(level) ?? []), [side, anchor]]);
  }
  return levels.map((level) => found.get(level)!.shift()!);
}
