package limits

import "fmt"

// Dimension is what a bucket is keyed by. The order of the constants is the order in which ties between
// refusals are decided [L10].
type Dimension uint8

// The dimensions. See the table of words in the documentation for when each of them is skipped.
const (
	Source       Dimension = iota // client address, masked to the rule's prefix
	Subnet                        // client address, masked wider
	Target                        // the normalised username or mailbox
	TargetSource                  // target together with the address
	Client                        // authenticated client, else the claimed one
	App                           // the app, else the realm
	Device                        // trusted device and target
	Signups                       // source, for a target that is not known to exist
	numDimensions
)

var dimensionNames = [numDimensions]string{"source", "subnet", "target", "target_source", "client", "app", "device", "signups"}

// String is the dimension's name in configuration, answers and metrics.
func (d Dimension) String() string {
	if d >= numDimensions {
		return fmt.Sprintf("dimension(%d)", uint8(d))
	}
	return dimensionNames[d]
}

// ParseDimension is the inverse of [Dimension.String].
func ParseDimension(s string) (Dimension, error) {
	for d, name := range dimensionNames {
		if s == name {
			return Dimension(d), nil
		}
	}
	return 0, fmt.Errorf("%q is no dimension; use one of source, subnet, target, target_source, client, app, device, signups", s)
}

// allows reports whether a rule of that class may have the dimension.
func (d Dimension) allows(c Class) bool {
	switch c {
	case Requests:
		return d != Device // a device exists only where failures are counted [D2]
	case Failures:
		return d != App && d != Signups
	case Factors:
		return d == Target || d == TargetSource || d == Source || d == Subnet
	}
	return false
}

// Dimensions lists the dimensions that a rule of class c may have, in tie order.
func Dimensions(c Class) []Dimension {
	var out []Dimension
	for d := range numDimensions {
		if d.allows(c) {
			out = append(out, d)
		}
	}
	return out
}

// Class is which requests a rule charges.
type Class uint8

// The classes, named as in the configuration file.
const (
	Requests Class = iota // every request
	Failures              // only what the backend called a wrong credential
	Factors               // only what the backend called a wrong second factor
)

// String is the key under which rules of the class stand in a policy.
func (c Class) String() string {
	switch c {
	case Requests:
		return "requests"
	case Failures:
		return "failures"
	case Factors:
		return "factors"
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Kind is the way of counting.
type Kind uint8

// The kinds, in the numbering that the scripts share.
const (
	KindWindow   Kind = 1 // fixed window [L2]
	KindTokens   Kind = 2 // token bucket [L3]
	KindFailures Kind = 3 // sliding log with reservations and lock [L4]
	KindSignal   Kind = 4 // fixed window, charged when failures settle [L14]
)

// Refuse is the form that a refusal takes. The order of the constants is the order of precedence among
// several refusals of one request [L1].
type Refuse uint8

// The forms.
const (
	Loud    Refuse = iota // 429 [R1]
	Uniform               // looks like a wrong password [R2]
	Silent                // looks like a success, and nothing is sent [R3]
)

// String is the form's name in the configuration file.
func (f Refuse) String() string {
	switch f {
	case Loud:
		return "429"
	case Uniform:
		return "uniform"
	case Silent:
		return "silent"
	}
	return fmt.Sprintf("refuse(%d)", uint8(f))
}

// ParseRefuse is the inverse of [Refuse.String].
func ParseRefuse(s string) (Refuse, error) {
	for _, f := range []Refuse{Loud, Uniform, Silent} {
		if s == f.String() {
			return f, nil
		}
	}
	return 0, fmt.Errorf("%q is no way to refuse; use 429, uniform or silent", s)
}
