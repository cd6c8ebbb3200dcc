// Positions of the labels of horizontal lines.

export type Side = "left" | "right";
export type Anchor = "bottom" | "top";
export type LabelPosition = [side: Side, anchor: Anchor];

/** The part of an axis that a label takes. */
const LABEL_HEIGHT = 0.07;

/** Return positions of the labels of lines that do not overlap: the first free position of each line.
 *
 * @param levels - The height of each line, in the coordinates of the axis.
 * @param others - Further heights on the axis, which extend its range.
 * @param sides - The sides on which labels may go, the preferred one first.
 */
export function labelPositions(levels: readonly number[], others: readonly number[], sides: readonly Side[]): LabelPosition[] {
  const every = [...levels, ...others];
  const high = LABEL_HEIGHT * (Math.max(...every) - Math.min(...every));
  const free = sides.flatMap((side) => (["bottom", "top"] as const).map((anchor): LabelPosition => [side, anchor]));
  const taken: [Side, number][] = [];
  const found = new Map<number, LabelPosition[]>();
  // From the top down: of two close lines the upper has its label above, the lower below.
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
