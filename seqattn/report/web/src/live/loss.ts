// Errors of a forecast.

/** Return the mean squared error of a forecast (T, G), scaled as in the loss of the run, over the cells whose truth is known; null if none is. */
export function meanSquaredError(forecast: readonly number[][], truth: readonly number[][] | null, scale: readonly number[]): number | null {
  let sum = 0;
  let count = 0;
  for (const [t, row] of (truth ?? []).entries()) {
    for (const [g, value] of row.entries()) {
      if (!Number.isFinite(value) || t >= forecast.length) continue;
      sum += ((forecast[t][g] - value) / scale[g]) ** 2;
      count += 1;
    }
  }
  return count ? sum / count : null;
}

/** Return the largest absolute difference of two forecasts. */
export function largestChange(one: readonly number[][], other: readonly number[][]): number {
  return Math.max(0, ...one.flatMap((row, t) => row.map((value, g) => Math.abs(value - other[t][g]))));
}
