"""Where tasks run: joblib's backends, Spark and Beam."""
