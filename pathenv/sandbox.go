package pathenv

import (
	"strings"

	"github.com/corral-exec/corral"
)

// SandboxOptions are the inputs for a command in a container.
type SandboxOptions struct {
	Shell string   // text for a login shell, or
	Args  []string // a program and its arguments, without one

	Config map[string]string // the sandbox's configured env
	Call   map[string]string // the call's env, which wins over Config

	PathPrepend []string
	ImagePath   string // the image's PATH; empty: ContainerPath
	Home        string // empty: /tmp, which every hardened container can write to

	// Keep names configured variables that commands get although they look like
	// credentials, or although the sandbox is strict.
	Keep []string
	// Strict takes from Config only names known to be harmless.
	Strict bool

	Profile Profile
	TTY     bool // the command has a terminal: it gets a TERM
}

// Sandbox returns the arguments and the environment of a command in a
// container. Nothing of this machine's environment is in it.
//
// pathPrepend, the call's PATH and the configured PATH, in this order, come
// before the PATH that the login profile sets, or without a shell before the
// image's. Directory names reach the shell byte for byte.
//
// The sandbox is its own boundary: a call may set loader variables and interpreter
// hooks, which act on its own processes only. Invalid names, values with a NUL byte
// and Corral's internal variable are refused with an ErrDenied. Configured variables
// that look like credentials are left out unless Keep lists them; those of the call
// are kept, since the caller passed them on purpose.
func Sandbox(o SandboxOptions) (Plan, error) {
	if (o.Shell == "") == (len(o.Args) == 0) {
		return Plan{}, corral.Errorf(corral.ErrInvalid, "set exactly one of them", "cannot prepare a command for the sandbox: want either shell text or arguments")
	}
	if err := checkDirs(o.PathPrepend, ":"); err != nil {
		return Plan{}, err
	}
	hint := "leave them out; the internal variables of Corral are its own"
	anything := func(string) bool { return false }
	if err := checkCall("in the sandbox", hint, o.Call, anything); err != nil {
		return Plan{}, err
	}

	b := newBuilder("linux")
	b.set("LANG", "C.UTF-8")
	b.set("HOME", "/tmp")
	if o.Home != "" {
		b.set("HOME", o.Home)
	}
	b.configure(o.Config, o.Keep, o.Strict)
	configPath := exactDirs(b.get("PATH"))
	for _, name := range sortedNames(o.Call) {
		b.set(name, o.Call[name])
	}

	first := []pathPart{
		{OriginPrepend, o.PathPrepend},
		{OriginCall, exactDirs(o.Call["PATH"])},
		{OriginConfig, configPath},
	}
	image := exactDirs(o.ImagePath)
	if len(image) == 0 {
		image = exactDirs(ContainerPath)
	}
	prepend := dirsOf(mergeParts(first...))
	path := mergeParts(append(first, pathPart{OriginImage, image})...)
	env, err := b.finish(o.Profile, o.TTY, path, o.Call)
	if err != nil {
		return Plan{}, err
	}
	if o.Shell == "" {
		return Plan{Args: o.Args, Env: env}, nil
	}
	return env.LoginShell(o.Shell, prepend), nil
}

// configure takes over the configured variables of a sandbox.
func (b *builder) configure(env map[string]string, keep []string, strict bool) {
	kept := names(strings.ToUpper(strings.Join(keep, " ")))
	for _, name := range sortedNames(env) {
		upper := strings.ToUpper(name)
		switch {
		case !ValidName(name) || strings.IndexByte(env[name], 0) >= 0:
			b.drop(name, SourceConfig, ReasonMalformed)
		case upper == prependVariable:
			b.drop(name, SourceConfig, ReasonReserved)
		case isCredential(name) && !kept[upper]:
			b.drop(name, SourceConfig, ReasonCredential)
		case strict && !strictNames[upper] && !strings.HasPrefix(upper, "LC_") && !kept[upper]:
			b.drop(name, SourceConfig, ReasonStrict)
		default:
			b.set(name, env[name])
		}
	}
}

// exactDirs is Split without trimming: white space may be part of a name.
func exactDirs(path string) []string { return Merge(strings.Split(path, ":")) }
