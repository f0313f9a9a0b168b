package app

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/corral-exec/corral/config"
	"github.com/corral-exec/corral/internal/cmdline"
	"github.com/corral-exec/corral/internal/words"
	"github.com/corral-exec/corral/policy"
	"github.com/corral-exec/corral/policy/approval"
	"github.com/corral-exec/corral/session"
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
	return InFlags(err.Error())
}

// InFlags is oneLine of what a package below says.
func InFlags(text string) string { return words.OneLine(flagWords.Replace(text)) }

// Visible is text on one line in which everything can be seen.
func Visible(text string) string { return approval.Visible(text) }

// Brief is the beginning of a text on one line.
func Brief(text string, columns int) string {
	return runewidth.Truncate(Visible(strings.Join(strings.Fields(text), " ")), columns, "…")
}

// SourceText is where a rule is written, short.
func SourceText(s policy.Source) string {
	if s.File == "" {
		return s.Name
	}
	return fmt.Sprintf("%s:%d", filepath.Base(s.File), s.Line)
}

// SystemText is a system and its architecture, such as linux/amd64.
func SystemText(os, arch string) string { return strings.Trim(Visible(os)+"/"+Visible(arch), "/") }

// MostOfCommand is how many columns of a command a list shows.
const MostOfCommand = 60

// StateCell is how a session is, in a word or two.
func StateCell(s session.Status) cmdline.Cell {
	switch {
	case s.State == session.Running && s.Unreachable:
		return cmdline.Cell{Text: "running (unreachable)", Style: cmdline.Yellow}
	case s.State == session.Running && s.WaitingForInput:
		return cmdline.Cell{Text: "running (input?)", Style: cmdline.Yellow}
	case s.State == session.Running:
		return cmdline.Cell{Text: "running", Style: cmdline.Green}
	case s.State == session.Unknown:
		return cmdline.Cell{Text: "unknown", Style: cmdline.Yellow}
	case s.State == session.Failed:
		return cmdline.Cell{Text: string(s.Reason), Style: cmdline.Red}
	case s.Exit == nil:
		return cmdline.Cell{Text: string(s.State)}
	case s.Exit.Signal != 0:
		return cmdline.Cell{Text: s.Exit.Signal.String(), Style: cmdline.Red}
	case s.Exit.Code != 0:
		return cmdline.Cell{Text: fmt.Sprintf("exit %d", s.Exit.Code), Style: cmdline.Red}
	}
	return cmdline.Cell{Text: "exit 0", Style: cmdline.Dim}
}
