// SPDX-License-Identifier: MIT OR Apache-2.0
//! Complete: the attributes after a scheduler's name, which clap's scripts do not know.
//!
//! ```text
//! --scheduler bfq:sl<TAB>          bfq:slice_idle=   bfq:slice_idle_us=
//! --scheduler bfq:hw_tag=1,sl<TAB>           … the same after a comma
//! ```
//!
//! Each shell gets a function that prints the attributes of a scheduler, and a hook before clap's
//! own. bash splits words at `:` and `=`, and replaces what follows the last of them; clap's
//! function gets `--device=ssd` as `--device ssd`.

use std::fmt::Write as _;

use clap::Command;
use clap_complete::Shell;
use paternoster_base::schedulers::choices;
use paternoster_core::DeviceFacts;
use paternoster_frame::choice::queue;

/// In bash a completed word is followed by a blank, unless its value is still to be written.
const BASH: &str = r#"
_paternoster_words() {
    local line=${COMP_LINE:0:COMP_POINT} full before value=
    full=${line##*[[:space:]]}
    before=${line%"$full"}
    before=${before%"${before##*[![:space:]]}"}
    before=${before##*[[:space:]]}
    case $full in
    --scheduler=*:*) value=${full#--scheduler=} ;;
    *:*) if [ "$before" = --scheduler ]; then value=$full; fi ;;
    esac
    if [ -n "$value" ]; then
        local part=${value#*:} whole kept=${full%"$2"}
        part=${part##*,}
        whole=${full%"$part"}
        whole=${whole#"$kept"}
        value=$(_paternoster_of "${value%%:*}")
        COMPREPLY=($(compgen -P "$whole" -W "$value" -- "$part"))
    elif [[ $full == --*=* ]]; then
        local COMP_CWORD=$((COMP_CWORD + 2))
        _paternoster "$1" "${full#*=}" "${full%%=*}"
        case $2 in --*) COMPREPLY=("${COMPREPLY[@]/#/${full%%=*}=}") ;; esac
    else
        _paternoster "$@"
    fi
    # Where no option was begun its values, commands and files are what is sought.
    case $2 in
    -*) ;;
    *)
        local word
        local -a words=("${COMPREPLY[@]}")
        COMPREPLY=()
        for word in "${words[@]}"; do
            case $word in -*) ;; *) COMPREPLY+=("$word") ;; esac
        done
        ;;
    esac
    case ${COMPREPLY[0]-} in *=) compopt -o nospace 2>/dev/null ;; esac
}
complete -F _paternoster_words -o bashdefault -o default paternoster
"#;

const ZSH: &str = r#"
_paternoster_attributes() {
    local value=
    case $words[CURRENT] in
    --scheduler=*:*) value=${words[CURRENT]#--scheduler=} ;;
    *:*) if [[ $words[CURRENT-1] == --scheduler ]]; then value=$words[CURRENT]; fi ;;
    esac
    [[ -n $value ]] || return 1
    local -a names
    names=($(_paternoster_of ${value%%:*}))
    compset -P '*[:,]'
    compadd -S '' -a names
    return 0
}
"#;

const FISH: &str = r#"
function __fish_paternoster_attributes
    set -l word (string replace -r -- '^--scheduler=' '' (commandline -ct))
    string match -q -- '*:*' $word; or return
    set -l before (string replace -r -- '[^:,]*$' '' $word)
    for attribute in (_paternoster_of (string split -m1 -- : $word)[1])
        echo $before$attribute
    end
end
"#;

/// The script with what it is to know besides.
pub(crate) fn with_attributes(shell: Shell, script: String, program: &Command) -> String {
    match shell {
        Shell::Bash => script + &of_posix() + BASH,
        Shell::Zsh => {
            let begin = "\n_paternoster() {\n";
            let hook = format!("{begin}    _paternoster_attributes && return 0\n");
            script.replacen(begin, &(of_posix() + ZSH + &hook), 1)
        }
        Shell::Fish => {
            let mut script = script + &of_fish() + FISH;
            for command in program.get_subcommands() {
                if command.get_arguments().any(|one| one.get_long() == Some("scheduler")) {
                    let _infallible = writeln!(
                        script,
                        "complete -c paternoster -n \"__fish_paternoster_using_subcommand {}\" -l \
                         scheduler -r -f -a \"(__fish_paternoster_attributes)\"",
                        command.get_name()
                    );
                }
            }
            script
        }
        _ => script,
    }
}

/// Each scheduler with the attributes that can be set.
fn attributes() -> Vec<(&'static str, Vec<String>)> {
    let of = |name| {
        let mut names = Vec::new();
        if let Ok(queue) = queue(name, DeviceFacts::default(), &[]) {
            queue.for_each_attribute(|path, _, _| {
                names.push(path.strip_prefix("iosched/").unwrap_or(path).to_owned() + "=");
            });
        }
        names
    };
    choices().map(|entry| (entry.name, of(entry.name))).collect()
}

fn of_posix() -> String {
    let mut text = String::from("\n_paternoster_of() {\n    case $1 in\n");
    for (scheduler, names) in attributes() {
        let names = names.join(" ");
        let _infallible = writeln!(text, "    {scheduler}) echo '{names}' ;;");
    }
    text + "    esac\n}\n"
}

fn of_fish() -> String {
    let mut text = String::from("\nfunction _paternoster_of\n    switch $argv[1]\n");
    for (scheduler, names) in attributes() {
        let names = names.join(" ");
        let _infallible =
            writeln!(text, "        case {scheduler}\n            string split ' ' '{names}'");
    }
    text + "    end\nend\n"
}
