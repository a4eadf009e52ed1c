"""Films of games: an agent plays, and each picture is drawn, encoded or shown."""
