package main

import (
	"fmt"
	"strings"
)

// bashCompletion completes commands, their flags as -help lists them, and
// files. %s are the names of the commands.
const bashCompletion = `# queend completion for bash: source <(queend completion bash)
_queend() {
  local word="${COMP_WORDS[COMP_CWORD]}" command="${COMP_WORDS[1]}"
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "%s -data -help -profile -version" -- "$word"))
  elif [[ "$word" == -* ]]; then
    COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" "$command" -help 2>/dev/null | grep -o '^  -[a-z-]*')" -- "$word"))
  elif [ "$command" = dlq ] && [ "$COMP_CWORD" -eq 2 ]; then
    COMPREPLY=($(compgen -W "list replay purge" -- "$word"))
  elif [ "$command" = completion ]; then
    COMPREPLY=($(compgen -W "bash zsh" -- "$word"))
  else
    COMPREPLY=($(compgen -f -- "$word"))
  fi
}
complete -o filenames -F _queend queend
`

// zshCompletion does the same for zsh.
const zshCompletion = `#compdef queend
# queend completion for zsh: source <(queend completion zsh)
_queend() {
  local -a names
  if (( CURRENT == 2 )); then
    names=(%s -data -help -profile -version)
    compadd -- $names
  elif [[ "$words[CURRENT]" == -* ]]; then
    names=(${(f)"$($words[1] $words[2] -help 2>/dev/null | grep -o '^  -[a-z-]*' | tr -d ' ')"})
    compadd -- $names
  elif [[ "$words[2]" == dlq ]] && (( CURRENT == 3 )); then
    compadd list replay purge
  elif [[ "$words[2]" == completion ]]; then
    compadd bash zsh
  else
    _files
  fi
}
compdef _queend queend
`

// completion prints what makes a shell complete commands and flags.
func completion(args []string, c *console) int {
	f := newFlags(c, "completion", "bash|zsh", "Prints what makes a shell complete the commands and flags of queend:\n\n"+
		"  source <(queend completion bash)")
	if code, ok := f.parse(args, 1, 1); !ok {
		return code
	}
	scripts := map[string]string{"bash": bashCompletion, "zsh": zshCompletion}
	script, ok := scripts[f.Arg(0)]
	if !ok {
		fmt.Fprintf(c.stderr, "queend completion: %q is not bash or zsh\n", f.Arg(0))
		return exitUsage
	}
	var names []string
	for _, command := range commands() {
		names = append(names, command.name)
	}
	fmt.Fprintf(c.stdout, script, strings.Join(names, " "))
	return exitOK
}
