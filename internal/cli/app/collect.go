package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"sync"
)

// LateCollection is GOGC until the first garbage collection: that is due at 32 MB of
// memory in use, and not at 4 MB.
const LateCollection = 800

// CollectLate spares a short command the first garbage collection, which takes some
// milliseconds and would free little. After it, or after the function that is
// returned was called, it is as always.
func CollectLate() (asUsual func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" { // the operator has set it
		return func() {}
	}
	usual := debug.SetGCPercent(LateCollection)
	asUsual = sync.OnceFunc(func() { debug.SetGCPercent(usual) })
	runtime.AddCleanup(new(*App), func(then func()) { then() }, asUsual)
	return asUsual
}

// Stays is called by a command that runs for long.
func (a *App) Stays() {
	if a.CollectAsUsual != nil {
		a.CollectAsUsual()
	}
}
