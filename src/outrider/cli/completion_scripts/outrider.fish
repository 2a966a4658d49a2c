# fish completion for outrider
function __outrider_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l lines ($words[1] completion words fish $words[2..-1] "$current" 2>/dev/null)
    switch "$lines[1]"
        case files
            __fish_complete_path "$current"
        case folders
            __fish_complete_directories "$current"
    end
    printf '%s\n' $lines[2..-1]
end
complete -c outrider -f -a '(__outrider_complete)'
