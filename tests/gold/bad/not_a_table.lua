-- args: data.kind=rows
return extend(use "cpu_tiny", {
    data = "rows",
})
