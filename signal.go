package corral

import (
	"strconv"
	"strings"
)

// Signal is a signal by its Linux number, on every system; executors on other systems
// translate by name.
type Signal int

const (
	SIGHUP   Signal = 1
	SIGINT   Signal = 2
	SIGQUIT  Signal = 3
	SIGABRT  Signal = 6
	SIGKILL  Signal = 9
	SIGUSR1  Signal = 10
	SIGSEGV  Signal = 11
	SIGUSR2  Signal = 12
	SIGPIPE  Signal = 13
	SIGTERM  Signal = 15
	SIGCHLD  Signal = 17
	SIGCONT  Signal = 18
	SIGSTOP  Signal = 19
	SIGTSTP  Signal = 20
	SIGWINCH Signal = 28
)

// Source: signal(7), the x86/ARM column. 32 and 33 are the C library's own.
var signalNames = [...]string{
	1: "HUP", 2: "INT", 3: "QUIT", 4: "ILL", 5: "TRAP", 6: "ABRT", 7: "BUS", 8: "FPE",
	9: "KILL", 10: "USR1", 11: "SEGV", 12: "USR2", 13: "PIPE", 14: "ALRM", 15: "TERM", 16: "STKFLT",
	17: "CHLD", 18: "CONT", 19: "STOP", 20: "TSTP", 21: "TTIN", 22: "TTOU", 23: "URG", 24: "XCPU",
	25: "XFSZ", 26: "VTALRM", 27: "PROF", 28: "WINCH", 29: "IO", 30: "PWR", 31: "SYS",
}

const (
	sigRTMin = 34
	sigMax   = 64
)

// Valid reports whether s is a signal's number.
func (s Signal) Valid() bool { return s >= 1 && s <= sigMax }

// String is the signal's name with its prefix, as "SIGTERM" or "SIGRTMIN+3".
func (s Signal) String() string {
	switch {
	case s >= 1 && int(s) < len(signalNames):
		return "SIG" + signalNames[s]
	case s == sigRTMin:
		return "SIGRTMIN"
	case s > sigRTMin && s <= sigMax:
		return "SIGRTMIN+" + itoa(int(s)-sigRTMin)
	}
	return "signal " + itoa(int(s))
}

// ParseSignal reads a signal as a number or a name, with or without SIG, in
// any case: "15", "TERM", "SIGTERM", "RTMIN+3".
func ParseSignal(text string) (Signal, error) {
	if n, err := strconv.Atoi(text); err == nil {
		if s := Signal(n); s.Valid() {
			return s, nil
		}
		return 0, Errorf(ErrInvalid, "signals are numbered 1 to 64", "no signal has the number %d", n)
	}
	name := strings.TrimPrefix(strings.ToUpper(text), "SIG")
	for n, known := range signalNames {
		if known != "" && known == name {
			return Signal(n), nil
		}
	}
	if rest, ok := strings.CutPrefix(name, "RTMIN"); ok {
		n := 0
		if rest != "" {
			var err error
			digits, plus := strings.CutPrefix(rest, "+")
			if n, err = strconv.Atoi(digits); err != nil || !plus || digits[0] == '+' {
				n = -1
			}
		}
		if s := Signal(sigRTMin + n); n >= 0 && s <= sigMax {
			return s, nil
		}
	}
	return 0, Errorf(ErrInvalid, "use a name such as TERM or a number from 1 to 64", "unknown signal %q", text)
}
