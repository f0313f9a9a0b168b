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
	Image       []string // the image's environment, "NAME=value"; without a PATH that is ContainerPath
	Home        string   // empty: /tmp, which every hardened container can write to

	// Keep names variables of the image or the configuration that commands get although
	// they look like credentials, and configured ones that a strict sandbox gets.
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
// image's. A login profile that sets PATH anew, as Debian's does, loses no directory
// of the image's: those before the directories of every system (ContainerPath) come
// before the profile's, the others behind them. Directory names reach the shell byte
// for byte.
//
// The sandbox is its own boundary: a call may set loader variables and interpreter
// hooks, which act on its own processes only. Invalid names, values with a NUL byte
// and Corral's internal variables are refused with an ErrDenied. Variables of the image
// and configured ones that look like credentials are left out unless Keep lists them;
// those of the call are kept, since the caller passed them on purpose. HOME is
// never the image's, whose user is another.
func Sandbox(o SandboxOptions) (Plan, error) {
	if (o.Shell == "") == (len(o.Args) == 0) {
		return Plan{}, corral.Errorf(corral.ErrInvalid, "set exactly one of them", "cannot prepare a command for the sandbox: want either shell text or arguments")
	}
	if err := checkDirs(o.PathPrepend, ":"); err != nil {
		return Plan{}, err
	}
	if err := CheckSandbox("the call's env", o.Call); err != nil {
		return Plan{}, err
	}

	b := newBuilder("linux")
	b.set("LANG", "C.UTF-8")
	b.set("HOME", "/tmp")
	if o.Home != "" {
		b.set("HOME", o.Home)
	}
	image := exactDirs(b.fromImage(o.Image, o.Keep))
	if len(image) == 0 {
		image = exactDirs(ContainerPath)
	}
	b.admit(SourceConfig, o.Config, o.Keep, o.Strict)
	configPath := exactDirs(b.get("PATH"))
	for _, name := range sortedNames(o.Call) {
		b.set(name, o.Call[name])
	}

	first := []pathPart{
		{OriginPrepend, o.PathPrepend},
		{OriginCall, exactDirs(o.Call["PATH"])},
		{OriginConfig, configPath},
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
	return env.LoginShell(o.Shell, prepend).withImagePath(), nil
}

// CheckSandbox refuses variables that no command in a sandbox can have. what names them.
func CheckSandbox(what string, env map[string]string) error {
	anything := func(string) bool { return false }
	return checkCall(what+" in the sandbox", "leave them out; the internal variables of Corral are its own", env, anything)
}

// fromImage takes over the variables of an image, and returns its PATH.
func (b *builder) fromImage(environ, keep []string) (path string) {
	env := make(map[string]string, len(environ))
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	path = env["PATH"]
	delete(env, "PATH")
	delete(env, "HOME")
	b.admit(SourceImage, env, keep, false)
	return path
}

// admit takes over variables of a sandbox that a call did not ask for.
func (b *builder) admit(source Source, env map[string]string, keep []string, strict bool) {
	kept := names(strings.ToUpper(strings.Join(keep, " ")))
	for _, name := range sortedNames(env) {
		upper := strings.ToUpper(name)
		switch {
		case !ValidName(name) || strings.IndexByte(env[name], 0) >= 0:
			b.drop(name, source, ReasonMalformed)
		case isInternal(name):
			b.drop(name, source, ReasonReserved)
		case isCredential(name) && !kept[upper]:
			b.drop(name, source, ReasonCredential)
		case strict && !strictNames[upper] && !strings.HasPrefix(upper, "LC_") && !kept[upper]:
			b.drop(name, source, ReasonStrict)
		default:
			b.set(name, env[name])
		}
	}
}

// exactDirs is Split without trimming: white space may be part of a name.
func exactDirs(path string) []string { return Merge(strings.Split(path, ":")) }
