"""What a family of symmetries does to the parameters, read from its terms and sizes."""
