for k, v in pairs({ [true] = 1 }) do end
