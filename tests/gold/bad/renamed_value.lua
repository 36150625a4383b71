return extend(use "dreamprm_tiny", {
    prm = {
        hyper = "fx",
    },
})
