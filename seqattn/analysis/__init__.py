"""What a trained model does: errors, attention metrics, explanations, diagnosis, comparisons."""
