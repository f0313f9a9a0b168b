package approval

import "github.com/corral-exec/corral/policy"

// Settings are the modes of one source, such as the call or the host. An empty value is
// not set there.
type Settings struct {
	Security    policy.Setting[policy.Security] `json:"security"`
	Ask         policy.Setting[policy.Ask]      `json:"ask"`
	AskFallback policy.Setting[policy.Security] `json:"askFallback"`
}

// Effective is the stricter of the requested and the host's value of each setting, and
// the default if neither is set. The fallback is never laxer than the security.
func Effective(requested, host Settings) Settings {
	e := Settings{
		Security:    effective(policy.Securities, policy.DefaultSecurity, requested.Security, host.Security),
		Ask:         effective(policy.Asks, policy.DefaultAsk, requested.Ask, host.Ask),
		AskFallback: effective(policy.Securities, policy.DefaultAskFallback, requested.AskFallback, host.AskFallback),
	}
	e.AskFallback = stricter(policy.Securities, e.AskFallback, e.Security)
	return e
}

func effective[T ~string](set []T, fallback T, requested, host policy.Setting[T]) policy.Setting[T] {
	if requested.Value == "" && host.Value == "" {
		return policy.Setting[T]{Value: fallback, Source: policy.Source{Name: "default"}}
	}
	return stricter(set, requested, host)
}

func stricter[T ~string](set []T, a, b policy.Setting[T]) policy.Setting[T] {
	if v := policy.Stricter(set, a.Value, b.Value); v == a.Value {
		return a
	}
	return b
}
