package policy

import (
	"regexp"
	"strings"
)

// carrierWords look at what is no option, where that matters.
var carrierWords = map[string]func(argv []Word, operands []int) string{
	"git clone": gitAddress, "git fetch": gitAddress, "git pull": gitAddress, "git push": gitAddress, "git ls-remote": gitAddress,
	"git fetch-pack": gitAddress, "git send-pack": gitAddress, "git submodule": gitAddress, "git remote": gitAddress,
	"git remote add": gitAddress, "git remote set-url": gitAddress,
	"git config": gitSetting,
	"make":       makeVariable, "gmake": makeVariable, "bmake": makeVariable,
	"crontab": crontabFile, "yarn": yarnScript,
	"ip":  ipExec,
	"tar": tarLetters, "gtar": tarLetters, "bsdtar": tarLetters,
	"sqlite3": sqliteText, "sqlite": sqliteText,
}

// makeSwitch is a variable of make that is set to something which is no command.
var makeSwitch = regexp.MustCompile(`^[A-Za-z_]+\??=([0-9]*|y|n|yes|no|on|off)$`)

// makeVariable: what a variable of the command line has goes into commands.
func makeVariable(argv []Word, operands []int) string {
	for _, i := range operands {
		if w := argv[i]; !w.Static || strings.Contains(w.Text, "=") && !makeSwitch.MatchString(w.Text) {
			return quote(w.Text) + " may set a variable that is part of commands"
		}
	}
	return ""
}

// crontabFile: it is installed.
func crontabFile(_ []Word, operands []int) string {
	if len(operands) > 0 {
		return "takes commands that run later from a file"
	}
	return ""
}

// yarnScript: a word that is no subcommand is a script of the package.
func yarnScript(argv []Word, operands []int) string {
	if len(operands) == 0 || hasField("install add remove up upgrade test build lint info why list outdated audit cache pack version workspaces", argv[operands[0]].Text) {
		return ""
	}
	return quote(argv[operands[0]].Text) + " may be a script of the package"
}

// ipExec: ip takes any abbreviation of "netns exec" and "vrf exec".
func ipExec(argv []Word, operands []int) string {
	if len(operands) < 2 {
		return ""
	}
	object := argv[operands[0]].Text
	if object == "" || !strings.HasPrefix("netns", object) && !strings.HasPrefix("vrf", object) {
		return ""
	}
	if verb := argv[operands[1]]; !verb.Static || verb.Text != "" && strings.HasPrefix("exec", verb.Text) {
		return object + " " + quote(verb.Text) + " runs a program"
	}
	return ""
}

// tarLetters: the first word may be options without a dash, whose values stand
// behind it.
func tarLetters(argv []Word, operands []int) string {
	for _, i := range operands {
		if w := argv[i]; w.mayBeOption() && w.Text != "-" {
			return "may read " + quote(w.Text) + " as an option, even behind --"
		}
	}
	if len(argv) < 2 || strings.HasPrefix(argv[1].Prefix, "-") {
		return ""
	}
	if strings.ContainsAny(argv[1].Text, "IF") {
		return quote(argv[1].Text) + " runs a program"
	}
	return ""
}

var sqliteRuns = regexp.MustCompile(`(?i)(^|\n)\s*\.|\b(load_extension|writefile|readfile|edit|fts3_tokenizer)\s*\(|\b(attach|vacuum\s+\S*\s*into)\b`)

// sqliteText: lines that begin with a dot are commands, and some functions
// reach outside of the data base.
func sqliteText(argv []Word, operands []int) string {
	if len(operands) < 2 {
		return "reads commands from its standard input"
	}
	for _, i := range operands[1:] {
		if w := argv[i]; !w.Static || sqliteRuns.MatchString(w.Text) {
			return "runs text that can run programs or reach other files: " + quote(w.Text)
		}
	}
	return ""
}
