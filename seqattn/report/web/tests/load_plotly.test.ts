import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { waitForPause } from "../src/load_plotly";

describe("waitForPause", () => {
  let source: EventTarget;
  let isOver: boolean;
  const send = (...kinds: string[]): void => { for (const kind of kinds) source.dispatchEvent(new Event(kind)); };

  beforeEach(() => {
    vi.useFakeTimers();
    [source, isOver] = [new EventTarget(), false];
    void waitForPause(source, 500).then(() => { isOver = true; });
  });
  afterEach(() => { vi.useRealTimers(); });

  it("ends without input", async () => {
    await vi.advanceTimersByTimeAsync(499);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isOver).toBe(true);
  });

  it("starts again at each input", async () => {
    for (const kind of ["pointermove", "keydown", "wheel"]) {
      await vi.advanceTimersByTimeAsync(400);
      send(kind);
    }
    await vi.advanceTimersByTimeAsync(499);
    expect(isOver).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    expect(isOver).toBe(true);
  });

  it("lasts while the button is pressed, even if the pointer rests", async () => {
    send("pointerdown", "pointermove");
    await vi.advanceTimersByTimeAsync(5000);
    expect(isOver).toBe(false);
    send("pointerup");
    await vi.advanceTimersByTimeAsync(500);
    expect(isOver).toBe(true);
  });
});
