package pathenv

import "github.com/corral-exec/corral"

// A Profile is the set of tools that the caller uses. It chooses the shell and the
// marker variables of a command. By these, scripts and shell start-up files know that
// an agent runs them.
type Profile string

const (
	ProfileExec  Profile = "exec"  // the exec tool; also the empty Profile
	ProfileQwen  Profile = "qwen"  // run_shell_command as Qwen Code has it
	ProfileAsimi Profile = "asimi" // run_shell_command as asimi has it
)

// markers returns the variables that every command of the profile gets. A call
// can neither change nor remove them.
func (p Profile) markers() (map[string]string, error) {
	markers := map[string]string{"CORRAL_SHELL": "exec"}
	switch p {
	case "", ProfileExec:
		markers["OPENCLAW_SHELL"] = "exec"
	case ProfileQwen:
		markers["QWEN_CODE"] = "1"
	case ProfileAsimi:
		markers["ASIMI_CLI"] = "1"
	default:
		return nil, corral.Errorf(corral.ErrInvalid, "use exec, qwen or asimi", "unknown tool profile %q", string(p))
	}
	return markers, nil
}
