"""What is done with webhooks beyond Gemini's seven methods: secrets kept, rotated, compared."""
