package pathenv

import (
	"cmp"
	"runtime"

	"github.com/corral-exec/corral"
)

// EnvPath says what the gateway does with a PATH in a call's env.
type EnvPath string

const (
	EnvPathReject  EnvPath = "reject"  // refuse it; also the empty EnvPath
	EnvPathReplace EnvPath = "replace" // use it in place of the login shell's and the daemon's
)

// GatewayOptions are the inputs for a command's environment on this machine.
type GatewayOptions struct {
	Inherited []string          // the daemon's environment, as os.Environ gives it
	Call      map[string]string // the call's env

	PathPrepend []string // directories, absolute (see PrependDirs)
	LoginPath   string   // LoginProbe's answer; empty if there is none
	EnvPath     EnvPath

	// Keep names inherited variables that commands get although a rule leaves them
	// out. With it an operator lets a single credential through.
	Keep []string

	Profile Profile
	TTY     bool   // the command has a terminal: it gets a TERM
	GOOS    string // empty: the one this program was built for
}

// Gateway returns the environment of a command on this machine.
//
// PATH is pathPrepend, then the login shell's, then the daemon's (or
// DefaultPath, if it has none), without repetitions. With EnvPathReplace a
// call's PATH takes the place of the last two; a blank one counts as none,
// because an empty PATH means the current directory.
//
// Either all variables of a call are kept, or the call is refused with an ErrDenied
// that names everything wrong with them: variables that run or load code or
// redirect tools, PATH, and invalid names. Credentials are kept: the caller passed
// them on purpose.
func Gateway(o GatewayOptions) (Environment, error) {
	switch o.EnvPath {
	case "", EnvPathReject, EnvPathReplace:
	default:
		return Environment{}, corral.Errorf(corral.ErrInvalid, "use reject or replace", "unknown envPath mode %q", string(o.EnvPath))
	}
	goos := cmp.Or(o.GOOS, runtime.GOOS)
	sep := listSeparator(goos)
	if err := checkDirs(o.PathPrepend, sep); err != nil {
		return Environment{}, err
	}
	hint := "leave them out; directories belong in pathPrepend, and what every command needs in the daemon's own environment"
	err := checkCall("the call's env on the gateway", hint, o.Call, func(name string) bool {
		return refusedFromCall(name) || isPath(name) && !(o.EnvPath == EnvPathReplace && isPathKey(name, goos))
	})
	if err != nil {
		return Environment{}, err
	}

	b := newBuilder(goos)
	b.inherit(o.Inherited, o.Keep, SourceDaemon)
	daemon := ownPath(b)
	for _, name := range sortedNames(o.Call) {
		if !isPathKey(name, goos) {
			b.set(name, o.Call[name])
		}
	}

	path := []pathPart{{OriginPrepend, o.PathPrepend}}
	if asked := callPath(o.Call, goos); len(asked) > 0 {
		path = append(path, pathPart{OriginCall, asked})
	} else {
		path = append(path, pathPart{OriginLogin, split(o.LoginPath, sep)}, pathPart{OriginDaemon, daemon})
	}
	return b.finish(o.Profile, o.TTY, mergeParts(path...), o.Call)
}

// ownPath is the inherited PATH, or the default.
func ownPath(b *builder) []string {
	sep := listSeparator(b.goos)
	if dirs := split(b.get("PATH"), sep); len(dirs) > 0 {
		return dirs
	}
	return split(DefaultPath(b.goos), sep)
}
