#compdef outrider
# zsh completion for outrider
_outrider() {
    local kind="" line
    local -a found
    while IFS= read -r line; do
        if [[ -z $kind ]]; then
            kind=$line
        else
            found+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
    done < <("${(Q)words[1]}" completion words zsh "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (( $#found )) && _describe -t values outrider found
    case $kind in
        files) _files ;;
        folders) _files -/ ;;
    esac
}
if [ "$funcstack[1]" = "_outrider" ]; then
    _outrider "$@"
else
    compdef _outrider outrider
fi
