# bash completion for outrider
_outrider() {
    local kind="" word description
    COMPREPLY=()
    while IFS=$'\t' read -r word description; do
        if [ -z "$kind" ]; then
            kind=$word
            continue
        fi
        if [ "$COMP_TYPE" = 63 ] && [ -n "$description" ]; then  # only listed, not inserted
            word="$word  ($description)"
        fi
        COMPREPLY+=("$word")
    done < <("$1" completion words bash "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    if [ "$kind" = words ]; then
        compopt +o bashdefault +o default 2>/dev/null  # no files here; bash 3 has no compopt, and shows them
    fi
}
complete -o bashdefault -o default -F _outrider outrider
