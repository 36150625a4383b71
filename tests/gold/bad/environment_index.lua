return _ENV[1]
