"""The HTTP server: OpenAI-shaped surfaces over one engine thread that batches every request continuously."""
