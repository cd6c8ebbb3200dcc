"""Analysis of trained models: errors, attention metrics, explanations, diagnoses, comparisons."""
