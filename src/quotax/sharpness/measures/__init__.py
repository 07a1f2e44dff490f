"""The measures: each is made of a `Measurement`, asked at parameters, and says what may be said of its number."""
