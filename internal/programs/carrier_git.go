package programs

import (
	"slices"
	"strings"

	"github.com/corral-exec/corral/internal/lazy"
)

const (
	gitHelper = "runs the program that it names in place of git's own"
	gitConfig = "sets what git reads from its configuration, programs among it"
	gitEditor = opensEditor
	gitSigns  = "runs gpg, or what the repository names for it"
	gitMan    = "runs man, or a browser"
)

// gitTable is the table for git and its commands. A rule that allows git trusts the
// configuration and the hooks of every repository, so -C is no carrier.
var gitTable = []carrierRow{
	{"git", "c: config-env: exec-path?", gitConfig},
	{"git", "p,paginate", "runs a pager"},
	{"git", "C: git-dir: work-tree: namespace: super-prefix: attr-source: list-cmds:", ""},
	{"git clone", "u,upload-pack: c,config: template:", gitHelper},
	{"git clone", "o,origin: b,branch: depth: j,jobs: reference: separate-git-dir: shallow-since: filter:", ""},
	{"git init,git init-db", "template:", "copies hooks, which later run"},
	{"git fetch,git pull,git fetch-pack,git ls-remote", "upload-pack: exec:", gitHelper},
	{"git push,git send-pack", "receive-pack: exec:", gitHelper},
	{"git push", "repo: signed?", "takes an address that may have a helper, or signs"},
	{"git push", "o,push-option: recurse-submodules:", ""},
	{"git archive", "remote: exec: o,output:", "runs a program for a remote archive, or writes where it is told"},
	{"git grep", "O,open-files-in-pager?", runs},
	{"git grep", "e: f: A: B: C: m: max-depth: threads:", ""},
	{"git rebase,git cherry-pick,git revert,git merge,git pull,git am,git commit,git commit-tree", "S,gpg-sign?", gitSigns},
	{"git merge,git pull", "verify-signatures", gitSigns},
	{"git tag", "s,sign u,local-user: v,verify", gitSigns},
	{"git log,git show,git whatchanged,git rev-list,git reflog,git stash,git shortlog,git diff-tree,git format-patch", "show-signature", gitSigns},
	{"git verify-commit,git verify-tag", "*", gitSigns},
	{"git rebase", "x,exec: i,interactive edit-todo", runs},
	{"git rebase", "s,strategy:", "runs git-merge-…, found on PATH"},
	{"git rebase", "X,strategy-option: onto: C: whitespace:", ""},
	{"git diff,git log,git show,git format-patch,git diff-tree,git diff-index,git diff-files,git whatchanged,git stash,git reflog,git range-diff,git blame,git annotate,git cat-file,git shortlog,git rev-list", "ext-diff textconv", "runs programs that the repository names"},
	{"git diff,git log,git show,git diff-tree,git diff-index,git diff-files,git whatchanged,git stash,git reflog,git rev-list,git shortlog,git format-patch,git range-diff", "output:", writes},
	{"git format-patch", "o,output-directory:", writes},
	{"git fast-export,git fast-import", "export-marks: export-pack-edges:", writes},
	{"git checkout-index", "prefix:", writes},
	{"git read-tree", "index-output:", writes},
	{"git bugreport,git diagnose", "o,output-directory:", writes},
	{"git diff,git log,git show,git diff-tree,git diff-index,git diff-files,git whatchanged,git reflog", "S: G: n: L: O: U: l: max-count: since: until: after: before: author: committer: grep: skip:", ""},
	{"git bisect run,git bisect visualize,git bisect view", "*", runs},
	{"git help", "*", gitMan},
	{"git am", "i,interactive", prompt},
	{"git add,git stage", "e,edit", gitEditor},
	{"git submodule foreach", "*", runs},
	{"git stash", "p,patch", prompt},
	{"git merge,git pull,git cherry-pick,git revert", "s,strategy:", "runs git-merge-…, found on PATH"},
	{"git merge,git pull,git cherry-pick,git revert", "e,edit", gitEditor},
	{"git commit", "e,edit", gitEditor},
	{"git commit", "m,message: F,file: C,reuse-message: c,reedit-message: t,template: author: date: cleanup: fixup: squash: trailer: u,untracked-files?", ""},
	{"git tag", "e,edit", gitEditor},
	{"git branch", "edit-description", gitEditor},
	{"git notes edit,git replace", "edit e", gitEditor},
	{"git notes", "ref:", ""},
	{"git config", "e,edit f,file: blob:", "edits, or reads another file"},
	{"git config", "type: t: default: get-color: comment: url: value:", ""},
	{"git remote add,git remote set-url,git worktree", "", ""},
	{"git am,git apply", "unsafe-paths directory:", writes},
	{"git send-email", "*", "runs programs, and sends what it is told"},
	{"git fast-import", "allow-unsafe-features", "lets its input write files"},
	{"git difftool,git mergetool,git filter-branch,git instaweb,git web--browse,git daemon,git shell,git gui,git citool,git gitk,git for-each-repo,git hook,git cvsserver,git credential,git credential-store,git credential-cache,git remote-ext,git remote-fd,git svn,git p4,git imap-send,git merge-index,git maintenance,git subtree,git env--helper,git submodule--helper,git add--interactive,git difftool--helper,git sh-i18n--envsubst,git http-backend,git upload-pack,git receive-pack,git upload-archive,git quiltimport,git filter-repo,git rebase--interactive", "*", "runs programs that its arguments or the repository name"},
	{"git add,git checkout,git restore,git reset,git commit", "p,patch i,interactive", prompt},
}

// gitCommands are the commands that come with git and are in no row, or only in rows
// with options. Any other word in that place is an alias, or is looked up on PATH.
const gitCommands = `add am annotate apply archive bisect blame branch bugreport bundle cat-file check-attr check-ignore check-mailmap
	check-ref-format checkout checkout-index cherry cherry-pick clean clone column commit commit-graph commit-tree config count-objects
	describe diagnose diff diff-files diff-index diff-tree fast-export fast-import fetch fetch-pack fmt-merge-msg for-each-ref format-patch
	fsck fsck-objects gc get-tar-commit-id grep hash-object help index-pack init init-db interpret-trailers log ls-files ls-remote ls-tree
	mailinfo mailsplit merge merge-base merge-file merge-tree mktag mktree multi-pack-index mv name-rev notes pack-objects pack-redundant
	pack-refs patch-id prune prune-packed pull push range-diff read-tree rebase reflog remote repack replace request-pull rerere reset
	restore rev-list rev-parse revert rm send-pack shortlog show show-branch show-index show-ref sparse-checkout stage stash status
	stripspace submodule switch symbolic-ref tag unpack-file unpack-objects update-index update-ref update-server-info var verify-commit
	verify-pack verify-tag version whatchanged worktree write-tree`

// transport matches an address that makes git run git-remote-NAME, such as
// ext::sh -c …
var transport = lazy.Regexp(`^[A-Za-z0-9+.-]+::`)

func gitAddress(argv []Word, operands []int) string {
	for _, i := range operands {
		if w := argv[i]; transport().MatchString(w.Prefix) {
			return "runs a helper for the address " + Quote(w.Text)
		} else if !w.Static && !strings.Contains(w.Prefix, "/") {
			return "gets an address that is not known: " + Quote(w.Text)
		}
	}
	return ""
}

var gitMessages = newGrammar("m,message: F,file: C,reuse-message: no-edit dry-run porcelain fixup: c,reedit-message: t,template: squash: author: date: cleanup: trailer: " +
	"a,all s,signoff n,no-verify v,verbose q,quiet amend allow-empty allow-empty-message no-gpg-sign reset-author o,only i,include no-signoff u,local-user: f,force d,delete l,list annotate sign")

// gitKeepsMessage are the options with --no- that take back no message.
const gitKeepsMessage = "--no-edit --no-verify --no-gpg-sign --no-signoff --no-sign --no-post-rewrite --no-status --no-verbose --no-quiet --no-column --no-stdout --no-stderr"

// gitMessage: without a message git starts an editor, and an editor may read commands
// from a pipe.
func gitMessage(argv []Word, operands []int) string {
	asks, told := argv[0].Text == "commit", false
	if argv[0].Text == "notes" {
		asks = len(operands) > 0 && (argv[operands[0]].Text == "add" || argv[operands[0]].Text == "append" || argv[operands[0]].Text == "edit")
	}
	for i := 1; i < len(argv); i++ {
		w := argv[i]
		if w.Text == "--" {
			break
		}
		if !strings.HasPrefix(w.Prefix, "-") {
			continue
		}
		if strings.HasPrefix(w.Prefix, "--no") && !HasField(gitKeepsMessage, w.Text) {
			return w.Text + " may take back the message, and without one git " + gitEditor
		}
		if argv[0].Text == "tag" && !strings.HasPrefix(w.Prefix, "--") && strings.ContainsAny(w.Prefix, "asu") ||
			strings.HasPrefix(w.Prefix, "--an") || strings.HasPrefix(w.Prefix, "--si") && argv[0].Text == "tag" || strings.HasPrefix(w.Prefix, "--local") {
			asks = true
		}
		opts, ok := gitMessages.word(w.Text, i)
		if !ok || !w.Static {
			continue
		}
		for _, o := range opts {
			switch o.name {
			case "m", "F", "C", "no-edit", "dry-run", "porcelain":
				told = true
			case "fixup":
				value := o.value
				if o.last > i && i+1 < len(argv) {
					value = argv[i+1]
				}
				told = told || value.Static && !strings.Contains(value.Text, ":")
			case "c", "squash":
				return w.Text + " " + gitEditor
			}
		}
		i = opts[len(opts)-1].last
	}
	if asks && !told {
		return "without a message " + gitEditor
	}
	return ""
}

// gitPull: one value of --rebase opens an editor. Like every long option of git, it may be
// abbreviated. -r takes the value in the same word.
func gitPull(argv []Word, operands []int) string {
	for _, w := range argv[1:] {
		if w.Text == "--" {
			break
		}
		name, value, has := strings.Cut(w.Prefix, "=")
		long := strings.HasPrefix(name, "--") && len(name) > 3 && strings.HasPrefix("--rebase", name)
		short := len(w.Prefix) > 1 && w.Prefix[0] == '-' && w.Prefix[1] != '-'
		switch _, mode, ok := strings.Cut(w.Prefix, "r"); {
		case long && has && (!w.Static || strings.HasPrefix(value, "i")),
			short && ok && (!w.Static || strings.HasPrefix(mode, "i")):
			return w.Text + " " + gitEditor
		}
	}
	return gitAddress(argv, operands)
}

// gitFormat: some placeholders of a format make git check signatures, with a program.
func gitFormat(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		if w.Text == "--" {
			break
		}
		format := strings.HasPrefix(w.Prefix, "--f") || strings.HasPrefix(w.Prefix, "--p")
		if format && (!w.Static || strings.Contains(w.Text, "%G")) {
			return Quote(w.Text) + " may run gpg, or what the repository names for it"
		}
	}
	return ""
}

// signed matches a placeholder of a format for references that has git check signatures.
var signed = lazy.Regexp(`%\(\*?signature`)

// gitRefs: references can be shown, and sorted, by what a check of their signatures says.
func gitRefs(argv []Word, _ []int) string {
	sorts := false // the word is the value of --sort
	for _, w := range argv[1:] {
		name, key, has := strings.Cut(w.Prefix, "=")
		sorting := len(name) > 3 && strings.HasPrefix("--sort", name)
		shows := len(name) > 3 && strings.HasPrefix("--format", name)
		switch {
		case sorting && has && (!w.Static || strings.Contains(key, "signature")),
			sorts && (!w.Static || strings.Contains(w.Text, "signature")),
			shows && has && !w.Static,
			signed().MatchString(w.Text):
			return Quote(w.Text) + " may run gpg, or what the repository names for it"
		}
		sorts = sorting && !has
	}
	return ""
}

func gitTag(argv []Word, operands []int) string {
	if why := gitRefs(argv, operands); why != "" {
		return why
	}
	return gitMessage(argv, operands)
}

// gitContinues: --continue after a conflict asks for a message, in an editor.
func gitContinues(argv []Word, _ []int) string {
	for _, w := range argv[1:] {
		if len(w.Prefix) > 4 && strings.HasPrefix("--continue", w.Prefix) {
			return w.Text + " " + gitEditor
		}
	}
	return ""
}

// plainSettings are the settings that name no program, no file and no server.
var plainSettings = lazy.Regexp(`^(user\.(name|email)|color\..*|column\..*|advice\..*|init\.defaultbranch|push\.(default|autosetupremote|followtags)|pull\.(rebase|ff)|fetch\.prune|rebase\.(autosquash|autostash)|merge\.(conflictstyle|ff)|diff\.(algorithm|renames|mnemonicprefix|noprefix|colormoved)|core\.(autocrlf|eol|filemode|ignorecase|quotepath|safecrlf|abbrev|longpaths|precomposeunicode)|branch\..*\.(merge|rebase|remote)|rerere\.enabled|log\.(date|decorate)|status\..*|commit\.verbose|help\.autocorrect)$`)

// gitReads reports whether git config is asked for a setting. Behind -- and as the value of
// another option, --get is what a setting is set to.
func gitReads(argv []Word) bool {
	for _, w := range argv[1:] {
		if strings.HasPrefix(w.Text, "--get") {
			return true
		}
		if !HasField("--global --system --local --worktree --show-origin --show-scope --null -z --name-only --includes --bool --int --path", w.Text) && !strings.HasPrefix(w.Text, "--type=") {
			return false
		}
	}
	return false
}

// gitSetting: reading a setting is no carrier, nor is setting one of plainSettings.
func gitSetting(argv []Word, operands []int) string {
	var words []Word
	for _, i := range operands {
		words = append(words, argv[i])
	}
	if len(words) == 0 {
		return ""
	}
	set := slices.ContainsFunc(argv, func(w Word) bool {
		return strings.HasPrefix(w.Text, "--add") || strings.HasPrefix(w.Text, "--rep") || strings.HasPrefix(w.Text, "--ren") || strings.HasPrefix(w.Text, "--rem") || strings.HasPrefix(w.Text, "--unset")
	})
	switch words[0].Text {
	case "get", "list":
		return ""
	case "set", "unset":
		words, set = words[1:], true
	case "edit", "rename-section", "remove-section":
		return "edits the configuration"
	}
	if slices.ContainsFunc(argv, func(w Word) bool { return strings.HasPrefix(w.Text, "--ren") }) {
		return "gives a section of the configuration another name, and with it its settings"
	}
	reading := gitReads(argv)
	if len(words) == 0 || !set && (len(words) == 1 || reading) {
		return ""
	}
	name := strings.ToLower(words[0].Text)
	if len(words) > 1 && (strings.HasSuffix(name, ".rebase") && !HasField("true false yes no on off 0 1 merges m", words[1].Text) ||
		strings.HasSuffix(name, ".remote") && (!words[1].Static || strings.Contains(words[1].Text, ":"))) {
		return "sets " + Quote(words[0].Text) + " to " + Quote(words[1].Text) + ", by which git opens an editor or runs a helper"
	}
	if !words[0].Static || !plainSettings().MatchString(name) {
		return "sets " + Quote(words[0].Text) + ", which git may read a program or an address from"
	}
	return ""
}
