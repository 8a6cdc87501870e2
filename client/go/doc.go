// Package fairgate asks a Fairgate gate before a call to an API with hard quotas, and settles after it.
//
//	gate, err := fairgate.New("127.0.0.1:50051", fairgate.Options{})
//	...
//	call, err := gate.Admit(ctx, fairgate.Request{
//		Target: "openai-prod", Tenant: "acme", Cost: fairgate.Amounts{"tokens": 9000},
//	})
//	if err != nil {
//		return err // *fairgate.Deferred, *fairgate.Rejected, *fairgate.GateError, or the context's error
//	}
//	defer call.Close()
//	// here goes the external call
//	call.Settle(fairgate.Amounts{"tokens": 8700})
//
// Make one [Gate] and keep it: it holds one connection and is safe for concurrent use.
package fairgate

//go:generate ./generate.sh .

// Version of this module.
const Version = "0.1.0"
