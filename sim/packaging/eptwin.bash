# eptwin.bash - completion of eptwin's commands, subcommands and options for bash; asks the program itself.

_eptwin_commands() { "$@" --help 2>/dev/null | sed -n 's/^\([a-z][a-z]*\)   *[a-z].*/\1/p'; }

_eptwin() {
    local program=${COMP_WORDS[0]} word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    local -a path=()
    COMPREPLY=()
    [[ $before == = ]] && before=${COMP_WORDS[COMP_CWORD - 2]}
    [[ $word == = ]] && word=
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$(_eptwin_commands "$program") help --help --version" -- "$word")
        return
    fi
    path=("${COMP_WORDS[1]}")
    case ${COMP_WORDS[1]} in
    help) mapfile -t COMPREPLY < <(compgen -W "$(_eptwin_commands "$program")" -- "$word"); return ;;
    trace | cluster | kernel)
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W "$(_eptwin_commands "$program" "${path[0]}") --help" -- "$word")
            return
        fi
        path+=("${COMP_WORDS[2]}") ;;
    esac
    case $before in
    --cluster | show | check | --include)
        mapfile -t COMPREPLY < <(compgen -W "$("$program" cluster list 2>/dev/null | cut -d ' ' -f 1)" -- "$word"
                                 compgen -f -- "$word") ;;
    --kernel) mapfile -t COMPREPLY < <(compgen -W 'll normal v2 one-sided two-sided mori mori-ll mega-moe pplx nccl-ll nccl-ht alltoallv allgather p2p' -- "$word") ;;
    --backend)
        mapfile -t COMPREPLY < <(compgen -W "$("$program" cluster backends 2>/dev/null | sed -n 's/^\([a-z][a-z0-9-]*\) .*/\1/p')" -- "$word") ;;
    --by) mapfile -t COMPREPLY < <(compgen -W 'layer dispatch combine' -- "$word") ;;
    --dtype) mapfile -t COMPREPLY < <(compgen -W 'fp8 bf16' -- "$word") ;;
    --format) mapfile -t COMPREPLY < <(compgen -W 'csv json' -- "$word") ;;
    --fabric) mapfile -t COMPREPLY < <(compgen -W 'shm verbs ofi cuda' -- "$word") ;;
    *)
        if [[ $word == -* ]]; then
            local options
            options=$("$program" "${path[@]}" --help all 2>/dev/null | sed -n 's/^  \(-., \|    \)\(--[a-z0-9-]*\).*/\2/p')
            mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
        else
            compopt -o filenames 2>/dev/null
            mapfile -t COMPREPLY < <(compgen -f -- "$word")
        fi ;;
    esac
}

complete -F _eptwin eptwin
