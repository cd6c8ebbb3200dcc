// Types of `live` in the JSON of the page (written by seqattn/report/content/live.py).
import type { Examples, Packed } from "../content";

export interface LiveRun {
  name: string;
  seed: number;
  best_epoch: number;
  /** The run folder below the folder in which the page was written; null if it lies elsewhere. Absent in pages of earlier versions. */
  path?: string | null;
  /** Epochs whose parameters the page has, in ascending order; 0 is before the training. */
  epochs: number[];
  /** The number of epochs whose parameters the training recorded, with the best one. */
  recorded: number;
  /** (E, P): the parameters at these epochs. */
  parameters: Packed;
}

/** Shift and scale of each feature: scaled = (value - shift) / scale. */
export interface Scaler {
  shift: number[];
  scale: number[];
}

export interface AttentionConfig {
  score: string;
  heads?: number;
  normalizer?: string;
  alpha?: number | "learned" | null;
  location?: { kind: string; window?: number } | null;
  [key: string]: unknown;
}

export interface ModelConfig {
  kind: "recurrent" | "fast_weights" | "transformer";
  attention?: AttentionConfig | null;
  [key: string]: unknown;
}

/** How `seqattn predict --input` reads one source as CSV; see seqattn/report/content/live_input.py. */
export interface InputForm {
  /** The column of the id and of the time; null: the file has none. */
  series: string | null;
  time: string | null;
  /** The difference of two times. */
  interval: number;
  delimiter: string;
  decimal: string;
  /** The words of each column of words; its features are called column=word. */
  one_hot: Record<string, string[]>;
  /** The number of rows that are read, from the last one; null: all. */
  window: number | null;
  /** Values of `--set`. */
  settings: string[];
}

/** An ONNX graph with the parameters of its runs. */
export interface GraphContent {
  /** The ONNX graph: gzip, base64. */
  graph: string;
  sha256: string;
  /** Name and shape of each parameter, in the order of the flat vector. */
  layout: [name: string, shape: number[]][];
  /** The number of decoder steps of the page: the target length of the training, or the longest output. */
  steps: number;
  source_length: number;
  /** The only source length that the model accepts; null: any. */
  fixed_source: number | null;
  /** Greatest length of a source and of a forecast; null: no limit. */
  max_length: number | null;
  /** Layers and heads of the cross-attention; 0 for a model without attention. */
  layers: number;
  heads: number;
  config: ModelConfig;
  runs: LiveRun[];
}

/** A model whose steps are vectors. */
export interface LiveModelContent extends GraphContent {
  features: string[];
  target_features: string[];
  scaling: { source: Scaler; target: Scaler; relative: boolean; instance: boolean };
  loss_scale: number[];
  /** Absent in pages of earlier versions: that of generated sequences. */
  input?: InputForm;
}

/** The symbols of one side; see seqattn/data/tokens.py. */
export interface VocabularyContent {
  /** All symbols by number; the first four are reserved. */
  symbols: string[];
  unit: "character" | "word" | "bpe" | "symbol";
  lowercase: boolean;
}

/** A model whose source and target are symbols. */
export interface WordModelContent extends GraphContent {
  source_vocabulary: VocabularyContent;
  target_vocabulary: VocabularyContent;
}

/** Test sequences of symbols, as numbers of the vocabularies. */
export interface WordExamples {
  /** How many test sequences the run has. */
  total: number;
  ids: string[];
  sources: number[][];
  /** With the end of the sequence. */
  targets: number[][];
  /** The known links of each sequence: target step, source step, and 1 if the link is sure; null if none are known. */
  links: [target: number, source: number, sure: number][][] | null;
}

/** What the tour shows of the data of the page; see seqattn/report/content/verdict.py. */
export interface TourContent {
  /** The sequence whose weights show best what attention is; null: no weights are known. */
  start: { example: number; layer: number; head: number } | null;
  /** The test losses with the model's own weights and with other weights; "" if they are unknown. */
  average: string;
  conclusion: string[];
  commands: [label: string, command: string][];
  /** A sentence for readers who move a source point, about sources that the training data lack; "" if it is unknown. Absent in pages of earlier versions. */
  outside?: string;
  /** The command that records the parameters. */
  record: [label: string, command: string][];
}

export interface LiveContent {
  /** Absent in pages of earlier versions. */
  tour?: TourContent;
  models: LiveModelContent[] | WordModelContent[];
  /** The sequences of symbols to start from; absent if the steps are vectors. */
  words?: WordExamples;
  /** Whether all models are shown at once from the beginning. */
  side_by_side?: boolean;
  /** The sequences to start from, on a page that has no others. */
  examples?: Examples;
  alignment?: number[][] | null;
}
