package pathenv

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/corral-exec/corral/internal/state/atomicfile"
	"github.com/corral-exec/corral/internal/state/journal"
)

// Answers of login shells are kept in a file (ProbeOptions.Kept), for programs that
// run one command and end: a profile may take longer than the command. An answer
// counts as long as nothing changes that it is known to depend on (see dependsOn). A
// profile may read other files as well, so it counts no longer than keptFor.
const (
	keptFor     = 10 * time.Minute
	keptMost    = 8 // answers: environments differ from terminal to terminal
	keptVersion = 1
	keptLimit   = 1 << 20 // bytes that are read of the file
	// A file that changed so lately may change once more without a trace: its
	// times are no finer than the ticks of a clock.
	settled = 2 * time.Second
)

// keptAnswers is what the file has, with a checksum.
type keptAnswers struct {
	Version int          `json:"version"`
	Answers []keptAnswer `json:"answers"` // the newest first
}

type keptAnswer struct {
	Of    string    `json:"of"` // a digest of what it depends on
	PATH  string    `json:"path"`
	Asked time.Time `json:"asked"`
}

// profiles are the files and directories that login shells read, of every shell: to
// look at one that another shell reads costs nothing. Those without a slash in front
// are in the home directory. /etc/profile of some systems looks whether there is a
// terminal or a file of bash, so bash's are everyone's.
var profiles = strings.Fields(`
	/etc/profile /etc/profile.d /etc/environment /etc/paths /etc/paths.d /etc/set-environment
	/etc/bash.bashrc /etc/bashrc /etc/ksh.kshrc /etc/mkshrc /etc/csh.cshrc /etc/csh.login
	/etc/zshenv /etc/zprofile /etc/zshrc /etc/zlogin /etc/zsh/zshenv /etc/zsh/zprofile /etc/zsh/zshrc /etc/zsh/zlogin
	/etc/fish/config.fish /etc/fish/conf.d
	.profile .bash_profile .bash_login .bashrc .kshrc .mkshrc .cshrc .tcshrc .login
	.zshenv .zprofile .zshrc .zlogin
	.config/fish/config.fish .config/fish/conf.d .config/fish/fish_variables`)

// usualDirs are directories of a home directory that profiles put on PATH if they are
// there.
var usualDirs = []string{"bin", ".local/bin"}

// transient are the variables that differ from call to call, and that a shell sets by
// itself.
var transient = []string{"PWD", "OLDPWD", "_"}

// kept returns the answer that the file has for what the answer depends on; empty if
// it has none.
func (p *LoginProbe) kept(of string) string {
	now := p.opts.now()
	for _, a := range readKept(p.opts.Kept) {
		if age := now.Sub(a.Asked); a.Of == of && age >= 0 && age < keptFor {
			return a.PATH
		}
	}
	return ""
}

// keep keeps an answer. That it cannot is no matter: then the shell is asked again.
func (p *LoginProbe) keep(of, path string) {
	now := p.opts.now()
	list := slices.DeleteFunc(readKept(p.opts.Kept), func(a keptAnswer) bool {
		age := now.Sub(a.Asked)
		return a.Of == of || age < 0 || age >= keptFor
	})
	list = slices.Insert(list, 0, keptAnswer{of, path, now})
	line, err := json.Marshal(keptAnswers{keptVersion, list[:min(len(list), keptMost)]})
	if err != nil || os.MkdirAll(filepath.Dir(p.opts.Kept), 0o700) != nil {
		return
	}
	_ = atomicfile.Write(p.opts.Kept, append(journal.Sign(line), '\n'), atomicfile.Options{})
}

// readKept reads what is this user's alone and whole. Anything else counts as none,
// and is replaced by the next answer.
func readKept(file string) []keptAnswer {
	line, err := readOwn(file, keptLimit)
	if err != nil {
		return nil
	}
	var k keptAnswers
	if signed, err := journal.Check(line); !signed || err != nil || json.Unmarshal(line, &k) != nil || k.Version != keptVersion {
		return nil
	}
	return k.Answers
}
