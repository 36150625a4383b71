# Refuses a program built before gen last wrote this folder; a copied program without a manifest is accepted.
sources=$(sed -n 's/^ *"sources_sha256": *"\([0-9a-f]*\)".*/\1/p' "$here/manifest.json" 2>/dev/null)
[ -z "$sources" ] || grep -qF "$sources" "$here/train" || refuse "$here/train was built before gen last" \
    "rewrote its sources; rebuild it: make -C $(printf %q "${here#"$PWD/"}")"
# A restart resumes from the newest checkpoint; it cannot read standard input again.
[ "$restarts" = 0 ] || case " ${args[*]-} " in
*" --chat "* | *" - "* | *"=- "*) refuse "--restarts=$restarts: standard input cannot be read again" ;;
*" --force "* | *" --force=true "* | *" --resume never "* | *" --resume=never "*)
    refuse "--restarts=$restarts resumes from checkpoints; --force and --resume never would start over each time"
    ;;
esac
