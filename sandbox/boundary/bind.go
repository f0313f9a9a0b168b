package boundary

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// A Bind is a directory or file of this machine that a sandbox has.
type Bind struct {
	Text     string // as it was written
	Source   string // absolute, clean
	Target   string // in the sandbox; absolute, clean
	ReadOnly bool
	// Own is a source that Corral made itself, in its state directory: only the target is
	// judged.
	Own bool

	written string // the source, as it was written
}

// maxBind bounds a bind's text, in bytes: two paths.
const maxBind = 2*4096 + 4

// ParseBind reads SOURCE:TARGET[:ro|rw]; without a mode it is rw, as Docker
// has it. A colon cannot be part of a path.
func ParseBind(text string) (Bind, error) {
	b := Bind{Text: text}
	refuse := func(rule Rule, why, fix string) (Bind, error) {
		return Bind{}, &Refusal{Rule: rule, Subject: text, Why: why, Fix: fix}
	}
	if len(text) > maxBind || strings.ContainsFunc(text, unicode.IsControl) {
		return refuse(BindSyntax, "it is too long, or has control characters", "write it as SOURCE:TARGET, with :ro if it is not to be written to")
	}
	parts := strings.Split(text, ":")
	if len(parts) < 2 || len(parts) > 3 || parts[0] == "" || parts[1] == "" {
		return refuse(BindSyntax, "it is not of the form SOURCE:TARGET[:ro|rw]", "write it as SOURCE:TARGET, with :ro if it is not to be written to")
	}
	if len(parts) == 3 {
		switch parts[2] {
		case "ro":
			b.ReadOnly = true
		case "rw":
		default:
			return refuse(BindSyntax, "there is no mode "+quote(parts[2]), "use ro or rw")
		}
	}
	if !strings.HasPrefix(parts[0], "/") {
		return refuse(BindRelative, "it uses a non-absolute source path; a name would be a volume's, and those are not mounted", "write the path in full, beginning with /")
	}
	if !strings.HasPrefix(parts[1], "/") {
		return refuse(BindTarget, "its target is no absolute path", "write the path in the sandbox in full, such as /data")
	}
	b.Source, b.Target, b.written = path.Clean(parts[0]), path.Clean(parts[1]), parts[0]
	return b, nil
}

// String is the bind with clean paths.
func (b Bind) String() string {
	mode := ":rw"
	if b.ReadOnly {
		mode = ":ro"
	}
	return b.Source + ":" + b.Target + mode
}

// Reserved are the directories of a sandbox in which nothing else is mounted,
// and that nothing is mounted over.
var Reserved = []string{"/workspace", "/agent", "/.corral", "/run/secrets", "/proc", "/sys", "/dev"}

// Taken are those that nothing is mounted over; below them it can be.
var Taken = []string{"/tmp", "/var/tmp", "/run"}

// checkTarget judges where a bind is to be in a sandbox with its workspace at workdir;
// empty: where it is in most.
func (b Bind) checkTarget(workdir string) *Refusal {
	refuse := func(tree string) *Refusal {
		does := "targets"
		if !under(b.Target, tree) {
			does = "covers"
		}
		return &Refusal{Rule: BindReserved, Subject: b.Text, Blocked: tree, Why: "it " + does + " the reserved container path " + tree, Fix: "choose another target, such as /data"}
	}
	reserved := Reserved
	if workdir != "" {
		reserved = append(slices.Clip(reserved), workdir)
	}
	for _, tree := range reserved {
		if under(b.Target, tree) || under(tree, b.Target) {
			return refuse(tree)
		}
	}
	for _, tree := range Taken {
		if under(tree, b.Target) {
			return refuse(tree)
		}
	}
	return nil
}

// under reports whether a clean path is tree or in it, whatever the letter case.
func under(p, tree string) bool {
	p, tree = fold(p), fold(tree)
	return p == tree || tree == "/" || strings.HasPrefix(p, tree+"/")
}

// fold is a path as file systems that know no letter case compare it. Some of
// them do not see characters that have no width either.
func fold(p string) string {
	for i := range len(p) {
		if c := p[i]; c >= 0x80 || 'A' <= c && c <= 'Z' {
			return strings.Map(func(r rune) rune {
				if unicode.Is(unicode.Cf, r) {
					return -1
				}
				return unicode.ToLower(unicode.ToUpper(r)) // ſ is s, K is k
			}, p)
		}
	}
	return p
}

// quote is what was asked for, in an error.
func quote(s string) string {
	if len(s) > maxSubject {
		s = strings.ToValidUTF8(s[:maxSubject], "") + "…"
	}
	return strconv.Quote(s)
}
