"""Analysis of trained models: errors, attention metrics, explanations, diagnosis, comparisons."""
