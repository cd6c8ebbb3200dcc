// The part of plotly that the page uses. The page embeds plotly as a script, which defines the global `Plotly`.

type PlotValues = Record<string, unknown>;

interface PlotPoint {
  x: number;
  y: number;
  data: PlotValues;
  pointNumber: number;
  pointIndex: number[];
}

interface PlotElement extends HTMLElement {
  data?: PlotValues[];
  on(event: "plotly_click" | "plotly_hover", handler: (event: { points: PlotPoint[] }) => void): void;
}

declare const Plotly: {
  react(id: string, traces: PlotValues[], layout: PlotValues, config: PlotValues): Promise<PlotElement>;
  relayout(id: string, changes: PlotValues): Promise<PlotElement>;
  purge(id: string): void;
};
