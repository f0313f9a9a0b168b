package cli

import (
	"errors"
	"strings"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/words"
)

// flagWords is what the packages below say, in the words of a command line.
var flagWords = strings.NewReplacer(
	"set host=node, or leave node out", "add --host node, or leave out --node",
	".pathPrepend", ".pathPrepend", // a key of the configuration
	"pathPrepend", "--path-prepend",
	"the call's env", "--env",
	"the daemon's own environment", "the environment that corral is started with",
	"the daemon's environment", "the environment that corral was started with",
	"remove the sandbox;", "remove the sandbox (corral sandbox rm NAME);",
	"use access none,", "use --workspace-access none,",
	"check the gateway's address", "check CORRAL_URL, or the URL of the login",
	"check that the address is that of", "check that CORRAL_URL is that of",
	"use http://: the", "use http:// in CORRAL_URL: the",
	"send a key (corral keys create), or the token in gateway.token in the gateway's state directory", "give corral login a key that corral keys create made there; with CORRAL_URL, name the gateway's token file, gateway.token in its state directory, in CORRAL_TOKEN_FILE",
	"give data, or eof=true", "give the data, - for what corral reads itself, or --eof",
	" in the header Corral-Agent", " with --agent",
	"start the command with background=true or pty=true to write to it", "start the command with --background --stdin, or with --pty, to write to it",
	"start the command with pty=true", "start the command with --pty",
	"give another working directory", "give another --workdir",
)

// inWords is an error for people. Mistakes in a configuration are told in its own
// words.
func inWords(err error) string {
	if _, ok := errors.AsType[*config.Error](err); ok {
		return words.OneLine(err.Error())
	}
	return inFlags(err.Error())
}

// inFlags is oneLine of what a package below says.
func inFlags(text string) string { return words.OneLine(flagWords.Replace(text)) }
