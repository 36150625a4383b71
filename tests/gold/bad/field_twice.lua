-- args: batch.micro=2 seq.max=64 batch.micro=4
return extend(use "cpu_tiny", {})
