package programs

import "strings"

// A packageManager has commands of its own, and takes other words for scripts of the package
// or for programs in its directories.
type packageManager struct {
	// commands are those that are known to run nothing but the scripts that every manager
	// runs under the same names, such as test; and those in rows of their own.
	commands string
	global   *grammar // options before the command; with another one, the command is not known
}

var packageManagers = map[string]packageManager{
	"npm": {
		"add audit cache ci cit clean-install config create dedupe diff doctor edit explain explore find-dupes get i ic in info init install install-ci-test install-clean " +
			"install-test it la link list ll ln ls outdated pack ping prefix prune publish query r rb rebuild remove restart rm root rum run run-script s search set show " +
			"start stop t test tst un uninstall up update upgrade urn v verify verison version view whoami why",
		newGrammar("s,silent q,quiet d dd,-dd ddd,-ddd verbose g,global json h,help v,version no-audit no-fund no-progress no-color ignore-scripts w,workspace: workspaces loglevel: registry: cache:"),
	},
	"pnpm": {
		"add audit config create dedupe fetch i import install it la licenses link list ll ln ls outdated pack prune publish rb rebuild remove rm root run run-script " +
			"start store t test tst un uninstall unlink up update upgrade why",
		pnpmGrammar,
	},
	"yarn": {
		"add audit build cache config create dedupe info init install lint list node outdated pack plugin remove run start test up upgrade version why workspaces",
		newGrammar("s,silent verbose json cwd: h,help v,version offline frozen-lockfile immutable non-interactive ignore-scripts"),
	},
	"bun": {
		"a add audit create i info install link outdated pm remove rm test unlink update upgrade why",
		newGrammar(jsOptions + " silent b,bun revision cwd: smol install: no-install"),
	},
}

// packageCommand says why it is not known what a package manager runs.
func packageCommand(argv []Word, operands []int) string {
	if why := npmFlags(argv, operands); why != "" {
		return why
	}
	name := NormalizeName(argv[0].Text)
	m, ok := packageManagers[name]
	if !ok {
		return ""
	}
	s := m.global.read(argv)
	at := s.first(argv)
	if s.stopped != "" {
		return "may run another command: " + s.stopped
	}
	if name == "bun" && at+1 < len(argv) && argv[at].Text == "run" {
		at += m.global.read(argv[at:]).first(argv[at:])
	}
	switch {
	case at >= len(argv), name == "bun" && codeFile(argv[at].Text), HasField(m.commands, argv[at].Text):
	default:
		return Quote(argv[at].Text) + " may be a script of the package, or run a program"
	}
	if at+1 < len(argv) && name == "yarn" && argv[at].Text == "workspaces" && !HasField("list info focus", argv[at+1].Text) {
		return "workspaces " + Quote(argv[at+1].Text) + " may run a script of each package, or a program"
	}
	return ""
}

// npmFlags: npm accepts its long options behind any number of dashes, and abbreviated.
func npmFlags(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		name, _, _ := strings.Cut(strings.TrimLeft(w.Prefix, "-"), "=")
		if w.Text == "--" {
			break
		}
		if len(name) < 3 || !strings.HasPrefix(w.Prefix, "-") {
			continue
		}
		for _, long := range npmRuns {
			if strings.HasPrefix(long, name) {
				return w.Text + " " + runs
			}
		}
		if strings.HasPrefix(name, "config.") { // of pnpm, for any setting
			return w.Text + " " + runs
		}
	}
	return ""
}

var npmRuns = strings.Fields("script-shell userconfig globalconfig node-options editor shell viewer prefix git browser python node-gyp init-module onload-script")
