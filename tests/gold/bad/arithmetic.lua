return {
    gpus = 2 + nil,
}
