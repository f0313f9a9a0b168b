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

// Answers of login shells are kept in a file (ProbeOptions.Kept), for programs that run
// one command and end: a profile may take longer than the command. An answer is used
// while nothing changes that it is known to depend on (see dependsOn). A profile may read
// other files too, so it is used no longer than keptFor.
const (
	keptFor     = 10 * time.Minute
	keptMost    = 8 // answers: environments differ from terminal to terminal
	keptVersion = 1
	keptLimit   = 1 << 20 // largest file, in bytes
	// A file that changed less than this ago may change again within the same tick of
	// the clock, so that its times do not show it.
	settled = 2 * time.Second
)

// keptAnswers is the content of the file, which also has a checksum.
type keptAnswers struct {
	Version int          `json:"version"`
	Answers []keptAnswer `json:"answers"` // the newest first
}

type keptAnswer struct {
	Of    string    `json:"of"` // the digest that dependsOn returned
	PATH  string    `json:"path"`
	Asked time.Time `json:"asked"`
}

// profiles are the files and directories that login shells read, for all shells: checking
// files of other shells costs nothing. Names without a slash in front are in the home
// directory. /etc/profile of some systems reads files of bash, so those count for every
// shell.
var profiles = strings.Fields(`
	/etc/profile /etc/profile.d /etc/environment /etc/paths /etc/paths.d /etc/set-environment
	/etc/bash.bashrc /etc/bashrc /etc/ksh.kshrc /etc/mkshrc /etc/csh.cshrc /etc/csh.login
	/etc/zshenv /etc/zprofile /etc/zshrc /etc/zlogin /etc/zsh/zshenv /etc/zsh/zprofile /etc/zsh/zshrc /etc/zsh/zlogin
	/etc/fish/config.fish /etc/fish/conf.d
	.profile .bash_profile .bash_login .bashrc .kshrc .mkshrc .cshrc .tcshrc .login
	.zshenv .zprofile .zshrc .zlogin
	.config/fish/config.fish .config/fish/conf.d .config/fish/fish_variables`)

// usualDirs are directories of a home directory that profiles put on PATH if they exist.
var usualDirs = []string{"bin", ".local/bin"}

// transient are variables that differ from call to call; a shell sets them itself.
var transient = []string{"PWD", "OLDPWD", "_"}

// kept returns the answer in the file for the digest of; empty if there is none.
func (p *LoginProbe) kept(of string) string {
	now := p.opts.now()
	for _, a := range readKept(p.opts.Kept) {
		if age := now.Sub(a.Asked); a.Of == of && age >= 0 && age < keptFor {
			return a.PATH
		}
	}
	return ""
}

// keep writes an answer to the file. A failure does not matter: the shell is asked again.
func (p *LoginProbe) keep(of, path string) {
	now := p.opts.now()
	list := slices.DeleteFunc(readKept(p.opts.Kept), func(a keptAnswer) bool {
		age := now.Sub(a.Asked)
		return a.Of == of || age < 0 || age >= keptFor
	})
	list = slices.Insert(list, 0, keptAnswer{of, path, now})
	if os.MkdirAll(filepath.Dir(p.opts.Kept), 0o700) != nil {
		return
	}
	_ = journal.WriteFile(p.opts.Kept, keptAnswers{keptVersion, list[:min(len(list), keptMost)]}, atomicfile.Options{})
}

// readKept reads the file if only this user can write it and it is undamaged. Otherwise it
// returns no answers, and the next answer replaces the file.
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
