package programs

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

// carrierWords check the words that are no options, for programs where these matter.
var carrierWords = map[string]func(argv []Word, operands []int) string{
	"git clone": gitAddress, "git fetch": gitAddress, "git pull": gitPull, "git push": gitAddress, "git ls-remote": gitAddress,
	"git fetch-pack": gitAddress, "git send-pack": gitAddress, "git submodule": gitAddress, "git remote": gitAddress,
	"git remote add": gitAddress, "git remote set-url": gitAddress, "git request-pull": gitAddress,
	"git config": gitSetting,
	"git commit": gitMessage, "git tag": gitTag, "git notes": gitMessage,
	"git branch": gitRefs, "git for-each-ref": gitRefs, "git stash": gitFormat, "git shortlog": gitFormat, "git diff-tree": gitFormat, "git format-patch": gitFormat,
	"git rebase": gitContinues, "git merge": gitContinues, "git cherry-pick": gitContinues, "git revert": gitContinues,
	"git log": gitFormat, "git show": gitFormat, "git whatchanged": gitFormat, "git rev-list": gitFormat, "git reflog": gitFormat,
	"openssl": opensslKey, "java": javaAgent,
	"apt": aptFile, "apt-get": aptFile, "aptitude": aptFile,
	"psql": databaseInput, "mysql": databaseInput, "mariadb": databaseInput, "mongo": databaseInput, "mongosh": databaseInput,
	"make": makeVariable, "gmake": makeVariable, "bmake": makeVariable,
	"crontab": crontabFile,
	"ip":      ipExec,
	"tar":     tarLetters, "gtar": tarLetters, "bsdtar": tarLetters,
	"sqlite3": sqliteText, "sqlite": sqliteText,
	"zip": zipTest,
	"npm": packageCommand, "pnpm": packageCommand, "yarn": packageCommand, "bun": packageCommand,
	"curl": curlFormat,
	"uniq": secondFile, "guniq": secondFile, "xxd": secondFile,
	"gcc": toolOptions, "g++": toolOptions, "cc": toolOptions, "c++": toolOptions, "clang": toolOptions, "clang++": toolOptions, "tcc": toolOptions, "c89": toolOptions, "c99": toolOptions, "cpp": toolOptions, "gfortran": toolOptions, "gccgo": toolOptions, "gdc": toolOptions,
	"ld": toolOptions, "gold": toolOptions, "lld": toolOptions, "ar": toolOptions, "nm": toolOptions, "ranlib": toolOptions, "strip": toolOptions,
	"objcopy": toolOptions, "objdump": toolOptions, "size": toolOptions, "gcc-ar": toolOptions, "gcc-nm": toolOptions, "gcc-ranlib": toolOptions,
}

// opensslKey: the word for a key or a certificate may name an engine, which openssl loads
// from a file.
func opensslKey(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		if strings.Contains(strings.ToLower(w.Text), "org.openssl.engine:") || !w.Static && w.Prefix == "" {
			return Quote(w.Text) + " may load code"
		}
	}
	return ""
}

// aptFile: apt runs the scripts of a package, and a word with a slash is the file of a
// package.
func aptFile(argv []Word, operands []int) string {
	for _, i := range operands {
		if w := argv[i]; !w.Static || strings.HasSuffix(w.Text, ".deb") || strings.HasPrefix(w.Text, ".") || strings.HasPrefix(w.Text, "/") || strings.HasSuffix(w.Text, ".dsc") || strings.HasSuffix(w.Text, ".changes") {
			return Quote(w.Text) + " may be a package in a file, whose scripts are run"
		}
	}
	return ""
}

// databaseInput: clients of databases read commands from standard input, and some of these
// commands run programs.
func databaseInput(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		if HasField("-l --list -V --version --help", w.Text) {
			return ""
		}
	}
	return "reads commands from its standard input"
}

const javaTools = `javac javadoc jar jarsigner keytool javap jlink jmod jdeps jpackage jcmd jmap jstack jps jstat jdb rmiregistry serialver`

// javaTool: options for the virtual machine load code.
func javaTool(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		if !w.Static && w.Prefix == "" || strings.HasPrefix(w.Prefix, "-J") || strings.HasPrefix(w.Prefix, "@") {
			return Quote(w.Text) + " may hand options to the virtual machine, which load code"
		}
	}
	return ""
}

// javaAgent: options that load code have a value behind a colon.
func javaAgent(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		for _, o := range javaLoads {
			if strings.HasPrefix(w.Prefix, o) {
				return Quote(w.Text) + " loads code, or runs a program"
			}
		}
	}
	return ""
}

var javaLoads = strings.Fields("-agent -javaagent -Xbootclasspath -Xrun -XX:OnError -XX:OnOutOfMemoryError -XX:Flags -XX:VMOptionsFile -XX:+UnlockDiagnostic @")

// zipTest: the program that -TT runs may stand in the same word.
func zipTest(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		if strings.HasPrefix(w.Prefix, "-") && !strings.HasPrefix(w.Prefix, "--") && strings.Contains(w.Prefix, "T") {
			return Quote(w.Text) + " runs a program"
		}
	}
	return ""
}

// curlFormat: an unknown format, or one that names a file, may write a file. With expand-
// before its name, any option takes a value with variables in it.
func curlFormat(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		if strings.HasPrefix(w.Prefix, "--expand-") {
			return Quote(w.Text) + " may be an option that writes where it is told"
		}
	}
	s := curlFormats.search(argv, true)
	for _, o := range s.options {
		if o.name == "w" && (!o.value.Static || strings.Contains(o.value.Text, "%output{") || strings.HasPrefix(o.value.Text, "@")) {
			return o.text + " can have a format that writes a file"
		}
	}
	return ""
}

var curlFormats = newGrammar("w,write-out:")

// secondFile: the second file is written. A number behind an option is its value.
func secondFile(argv []Word, operands []int) string {
	ended := slices.ContainsFunc(argv, func(w Word) bool { return w.Text == "--" })
	option := func(i int) bool { return strings.HasPrefix(argv[i].Text, "-") && len(argv[i].Text) == 2 }
	files := 0
	for _, i := range operands {
		if !ended && digits(argv[i].Text) && option(i-1) && (i < 3 || !option(i-2)) {
			continue
		}
		if files++; files > 1 && argv[i].Text != "-" {
			return "writes to " + Quote(argv[i].Text)
		}
	}
	return ""
}

// toolOptions: compilers and linkers read options from files, and pass some on to others.
func toolOptions(argv []Word, _ []int) string {
	for i, w := range argv[1:] {
		switch {
		case !w.Static && w.Prefix == "" || strings.HasPrefix(w.Prefix, "@"):
			return Quote(w.Text) + " may be a file of options"
		case strings.HasPrefix(w.Text, "-Wl,") && strings.Contains(w.Text, "-plugin"), strings.HasPrefix(w.Text, "-Wl,@"), strings.Contains(w.Text, ",@") && strings.HasPrefix(w.Text, "-W"):
			return Quote(w.Text) + " has the linker load code"
		case w.Text == "-Xlinker" && i+2 < len(argv) && (!argv[i+2].Static || strings.Contains(argv[i+2].Text, "plugin") || strings.HasPrefix(argv[i+2].Text, "@")):
			return w.Text + " has the linker load code"
		}
	}
	return ""
}

// makeSwitch matches a variable of make whose value cannot be a command.
var makeSwitch = lazy.Regexp(`^[A-Za-z_]+\??=([0-9]*|y|n|yes|no|on|off)$`)

// makeVariable: make puts the values of variables into commands.
func makeVariable(argv []Word, operands []int) string {
	for _, i := range operands {
		if w := argv[i]; !w.Static || strings.Contains(w.Text, "=") && !makeSwitch().MatchString(w.Text) {
			return Quote(w.Text) + " may set a variable that is part of commands"
		}
	}
	return ""
}

// crontabFile: crontab installs the file.
func crontabFile(_ []Word, operands []int) string {
	if len(operands) > 0 {
		return "takes commands that run later from a file"
	}
	return ""
}

// ipExec: ip accepts any abbreviation of "netns exec" and "vrf exec".
func ipExec(argv []Word, operands []int) string {
	if len(operands) < 2 {
		return ""
	}
	object := argv[operands[0]].Text
	if object == "" || !strings.HasPrefix("netns", object) && !strings.HasPrefix("vrf", object) {
		return ""
	}
	if verb := argv[operands[1]]; !verb.Static || verb.Text != "" && strings.HasPrefix("exec", verb.Text) {
		return object + " " + Quote(verb.Text) + " runs a program"
	}
	return ""
}

// tarLetters: the first word may be options without a dash; their values follow it.
func tarLetters(argv []Word, operands []int) string {
	for _, i := range operands {
		if w := argv[i]; w.MayBeOption() && w.Text != "-" {
			return "may read " + Quote(w.Text) + " as an option, even behind --"
		}
	}
	if len(argv) < 2 || strings.HasPrefix(argv[1].Prefix, "-") {
		return ""
	}
	if strings.ContainsAny(argv[1].Text, "IF") {
		return Quote(argv[1].Text) + " runs a program"
	}
	return ""
}

var sqliteRuns = lazy.Regexp(`(?i)(^|\n)\s*\.|\b(load_extension|writefile|readfile|edit|fts3_tokenizer)\s*\(|\b(attach|vacuum\s+\S*\s*into)\b`)

// sqliteText: lines that begin with a dot are commands, and some functions use files
// outside of the database.
func sqliteText(argv []Word, operands []int) string {
	if len(operands) < 2 {
		return "reads commands from its standard input"
	}
	for _, i := range operands[1:] {
		if w := argv[i]; !w.Static || sqliteRuns().MatchString(w.Text) {
			return "runs text that can run programs or reach other files: " + Quote(w.Text)
		}
	}
	return ""
}
