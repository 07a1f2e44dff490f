"""Feed-forward networks without convolutions."""
