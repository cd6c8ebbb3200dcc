import { expect, it } from "vitest";
import type { Packed } from "../src/content";
import { matrix, unpack } from "../src/content";

async function pack(values: Uint8Array<ArrayBuffer> | Uint16Array<ArrayBuffer>): Promise<string> {
  const stream = new Blob([values]).stream().pipeThrough(new CompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  return btoa(String.fromCharCode(...bytes));
}

/** Pack float32 like `pack_points` of seqattn/report/content/examples.py. */
function packPlanes(values: Float32Array<ArrayBuffer>): Promise<string> {
  const bytes = new Uint8Array(values.buffer);
  return pack(Uint8Array.from(bytes, (_, k) => bytes[(k % values.length) * 4 + Math.floor(k / values.length)]));
}

it("unpacks float32 by its shape", async () => {
  const packed: Packed = { shape: [2, 3], bits: 32, data: await packPlanes(Float32Array.from([0, 1, 2, 3.5, -4, NaN])) };
  const found = await unpack(packed);
  expect(found.at(1, 0)).toBe(3.5);
  expect(matrix(found, 2, 3)).toEqual([[0, 1, 2], [3.5, -4, null]]);
});

it.each([
  [8, Uint8Array.from([0, 127, 254, 255]), 254],
  [16, Uint16Array.from([0, 32767, 65534, 65535]), 65534],
] as const)("decodes integers of %d bits between low and high", async (bits, codes, most) => {
  const found = await unpack({ shape: [4], bits, low: -1, high: 3, decimals: 4, data: await pack(codes) });
  expect(found.at(0)).toBe(-1);
  expect(found.at(1)).toBeCloseTo(-1 + 4 * (codes[1] / most), 12);
  expect(found.at(2)).toBe(3);
  expect(found.at(3)).toBeNaN();
});

it("takes the leading rows and columns at the first indices", async () => {
  const packed: Packed = { shape: [2, 3, 5], bits: 32, data: await packPlanes(Float32Array.from({ length: 30 }, (_, k) => k)) };
  expect(matrix(await unpack(packed), 2, 3, 1)).toEqual([[15, 16, 17], [20, 21, 22]]);
});
