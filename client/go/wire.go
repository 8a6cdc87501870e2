package fairgate

import (
	"crypto/rand"
	"encoding/hex"
	"math"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"fairgate.io/go/fairgate/fairgatev1"
)

// errorDomain marks what the gate itself says, as against the channel or a proxy.
const errorDomain = "fairgate.io"

var layers = map[fairgatev1.Layer]string{
	fairgatev1.Layer_LAYER_TARGET: "target",
	fairgatev1.Layer_LAYER_CLASS:  "class",
	fairgatev1.Layer_LAYER_TENANT: "tenant",
}

// admitRequest is the question as of now, but for its deadline.
func admitRequest(request Request) (*fairgatev1.AdmitRequest, error) {
	if request.Attempt < 0 || request.Attempt > math.MaxUint32 {
		return nil, &GateError{
			Code: codes.InvalidArgument, Message: "attempt: not a count", kind: ErrBadRequest,
			Fields: []FieldViolation{{Field: "attempt", Description: "not a count"}},
		}
	}
	asked := &fairgatev1.AdmitRequest{
		Target:    request.Target,
		Tenant:    request.Tenant,
		Priority:  request.Priority,
		Cost:      request.Cost,
		CostKind:  fairgatev1.CostKind_COST_KIND_ESTIMATE,
		RequestId: request.RequestID,
		Attempt:   uint32(max(request.Attempt, 1)),
		Mode:      fairgatev1.AdmitMode_ADMIT_MODE_NORMAL,
	}
	if request.UpperBound {
		asked.CostKind = fairgatev1.CostKind_COST_KIND_UPPER_BOUND
	}
	if request.CheckOnly {
		asked.Mode = fairgatev1.AdmitMode_ADMIT_MODE_CHECK_ONLY
	}
	if asked.RequestId == "" {
		asked.RequestId = newRequestID()
	}
	if request.TimerFloor != 0 {
		asked.TimerFloor = durationpb.New(request.TimerFloor)
	}
	if request.MaxHold != 0 {
		asked.MaxHold = durationpb.New(request.MaxHold)
	}
	return asked, nil
}

func newRequestID() string {
	var id [16]byte
	rand.Read(id[:]) // never fails
	return hex.EncodeToString(id[:])
}

// admitOutcome is the grant; or *Deferred, *Rejected, or *GateError for an answer without an outcome.
func admitOutcome(response *fairgatev1.AdmitResponse) (Grant, error) {
	id, attempt, degraded := response.GetRequestId(), int(response.GetAttempt()), response.GetDegraded()
	switch {
	case response.GetGrant() != nil:
		grant := response.GetGrant()
		return Grant{
			RequestID:      id,
			Attempt:        attempt,
			Degraded:       degraded,
			Debited:        amounts(grant.GetDebited()),
			LeaseExpiresIn: grant.GetLeaseExpiresIn().AsDuration(),
			Repeated:       grant.GetRepeated(),
			ConfigVersion:  response.GetConfigVersion(),
		}, nil
	case response.GetDefer() != nil:
		told := response.GetDefer()
		deferred := &Deferred{
			RequestID:     id,
			Attempt:       attempt,
			Degraded:      degraded,
			Delay:         told.GetRetryDelay().AsDuration(),
			ProjectedWait: told.GetProjectedWait().AsDuration(),
			Place:         told.GetPlace(),
		}
		for _, limit := range told.GetLimitedBy() {
			deferred.LimitedBy = append(deferred.LimitedBy, Limit{layers[limit.GetLayer()], limit.GetDimension()})
		}
		return Grant{}, deferred
	case response.GetReject() != nil:
		told := response.GetReject()
		rejected := &Rejected{
			RequestID: id,
			Attempt:   attempt,
			Degraded:  degraded,
			Message:   told.GetMessage(),
			Dimension: told.GetDimension(),
			Earliest:  told.GetEarliest().AsDuration(),
		}
		if reason := int(told.GetReason()); reason >= 0 && reason < len(rejectReasons) {
			rejected.Reason = RejectReason(reason)
		}
		return Grant{}, rejected
	default:
		return Grant{}, &GateError{Code: codes.Internal, Message: "the gate answered without an outcome"}
	}
}

func settleRequest(grant *Grant, settlement Settlement) *fairgatev1.ReleaseRequest {
	settle := &fairgatev1.Settle{Outcome: fairgatev1.CallOutcome(settlement.Outcome), Actual: settlement.Actual}
	if settlement.Outcome == RateLimited && settlement.RetryAfter != nil {
		settle.RetryAfter = durationpb.New(*settlement.RetryAfter)
	}
	if len(settlement.RateLimits) > 0 {
		settle.RateLimits = map[string]*fairgatev1.RateLimitStatus{}
	}
	for name, status := range settlement.RateLimits {
		told := &fairgatev1.RateLimitStatus{Remaining: status.Remaining}
		if status.Reset != nil {
			told.Reset_ = durationpb.New(*status.Reset)
		}
		settle.RateLimits[name] = told
	}
	return &fairgatev1.ReleaseRequest{
		Target: grant.Target, RequestId: grant.RequestID, Attempt: uint32(grant.Attempt),
		Action: &fairgatev1.ReleaseRequest_Settle{Settle: settle},
	}
}

func withdrawRequest(target, requestID string, attempt int) *fairgatev1.ReleaseRequest {
	return &fairgatev1.ReleaseRequest{
		Target: target, RequestId: requestID, Attempt: uint32(max(attempt, 1)),
		Action: &fairgatev1.ReleaseRequest_Withdraw{Withdraw: &fairgatev1.Withdraw{}},
	}
}

func extendRequest(grant *Grant, ttl time.Duration, used Amounts) *fairgatev1.ReleaseRequest {
	extend := &fairgatev1.Extend{UsedSoFar: used}
	if ttl > 0 {
		extend.LeaseTtl = durationpb.New(ttl)
	}
	return &fairgatev1.ReleaseRequest{
		Target: grant.Target, RequestId: grant.RequestID, Attempt: uint32(grant.Attempt),
		Action: &fairgatev1.ReleaseRequest_Extend{Extend: extend},
	}
}

func releaseReport(response *fairgatev1.ReleaseResponse) ReleaseReport {
	report := ReleaseReport{
		Refunded:       amounts(response.GetRefunded()),
		Degraded:       response.GetDegraded(),
		LeaseExpiresIn: response.GetLeaseExpiresIn().AsDuration(),
	}
	if result := int(response.GetResult()); result >= 0 && result < len(releaseResults) {
		report.Result = ReleaseResult(result)
	}
	return report
}

// saidOf is what a release says, as metrics name it.
func saidOf(request *fairgatev1.ReleaseRequest) string {
	switch action := request.GetAction().(type) {
	case *fairgatev1.ReleaseRequest_Settle:
		return CallOutcome(action.Settle.GetOutcome()).String()
	case *fairgatev1.ReleaseRequest_Extend:
		return "EXTEND"
	default:
		return "WITHDRAW"
	}
}

func amounts(of map[string]float64) Amounts {
	if of == nil {
		return Amounts{}
	}
	return of
}

// noAnswer says whether the gate could not be asked, as against refused. The gate itself says Unavailable where a policy
// is to stay closed, with an ErrorInfo of its own domain. Without that mark the status comes from this side's channel,
// from a proxy, or from a gate that is going down.
func noAnswer(said *status.Status) bool {
	switch said.Code() {
	case codes.DeadlineExceeded:
		return true
	case codes.Unavailable, codes.Canceled:
		for _, detail := range said.Details() {
			if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
				return false
			}
		}
		return true
	default:
		return false
	}
}

// toError is the gate's refusal.
func toError(said *status.Status) *GateError {
	refusal := &GateError{Code: said.Code(), Message: said.Message()}
	for _, detail := range said.Details() {
		if bad, ok := detail.(*errdetails.BadRequest); ok {
			for _, field := range bad.GetFieldViolations() {
				refusal.Fields = append(refusal.Fields, FieldViolation{field.GetField(), field.GetDescription()})
			}
		}
	}
	switch said.Code() {
	case codes.InvalidArgument:
		refusal.kind = ErrBadRequest
	case codes.NotFound:
		refusal.kind = ErrUnknownTarget
	case codes.Unavailable:
		refusal.kind = ErrPolicyClosed
	}
	return refusal
}
