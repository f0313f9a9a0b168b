package runshell_test

import (
	"github.com/tmc/langchaingo/tools"

	"github.com/corral-exec/corral/tool/runshell"
)

// 002: "The run_shell_command tool is implemented as a langchaingo.Tool in Go."
var _ tools.Tool = runshell.RunShellCommand{}
