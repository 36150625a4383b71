return {
    family = ,
}
