"""Records of a whole organisation in PostgreSQL; the only part that knows SQLAlchemy and psycopg."""
