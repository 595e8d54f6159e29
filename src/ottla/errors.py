"""One class for each protocol error that a client can see; the code is turned to and from the wire here alone."""

import re
from typing import ClassVar

MESSAGE_CHARS_MAX = 2000  # a message may quote a name; together they must fit in an answer


class OttlaError(Exception):
    """Whatever we raise on purpose."""


class ProtocolError(OttlaError):
    """An error of the Kafka protocol. Raised where the rule is broken, answered as `code`."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False

    def __init__(self, message: str | None = None) -> None:
        super().__init__((message or self.__doc__ or "")[:MESSAGE_CHARS_MAX])

    @property
    def message(self) -> str:
        return str(self.args[0])

    @classmethod
    def name(cls) -> str:
        """The protocol's name for it: NOT_LEADER_OR_FOLLOWER."""
        return NAMES[cls.code]


class UnknownServerError(ProtocolError):
    """Unknown server error."""

    code = -1


class OffsetOutOfRange(ProtocolError):
    """Offset out of range."""

    code = 1


class CorruptMessage(ProtocolError):
    """Corrupt message."""

    code = 2
    retriable = True


class UnknownTopicOrPartition(ProtocolError):
    """Unknown topic or partition."""

    code = 3
    retriable = True


class InvalidFetchSize(ProtocolError):
    """Invalid fetch size."""

    code = 4


class LeaderNotAvailable(ProtocolError):
    """Leader not available."""

    code = 5
    retriable = True


class NotLeaderOrFollower(ProtocolError):
    """Not leader or follower."""

    code = 6
    retriable = True


class RequestTimedOut(ProtocolError):
    """Request timed out."""

    code = 7
    retriable = True


class BrokerNotAvailable(ProtocolError):
    """Broker not available."""

    code = 8


class ReplicaNotAvailable(ProtocolError):
    """Replica not available."""

    code = 9
    retriable = True


class MessageTooLarge(ProtocolError):
    """Message too large."""

    code = 10


class StaleControllerEpoch(ProtocolError):
    """Stale controller epoch."""

    code = 11


class OffsetMetadataTooLarge(ProtocolError):
    """Offset metadata too large."""

    code = 12


class NetworkException(ProtocolError):
    """Network exception."""

    code = 13
    retriable = True


class CoordinatorLoadInProgress(ProtocolError):
    """Coordinator load in progress."""

    code = 14
    retriable = True


class CoordinatorNotAvailable(ProtocolError):
    """Coordinator not available."""

    code = 15
    retriable = True


class NotCoordinator(ProtocolError):
    """Not coordinator."""

    code = 16
    retriable = True


class InvalidTopicException(ProtocolError):
    """Invalid topic exception."""

    code = 17


class RecordListTooLarge(ProtocolError):
    """Record list too large."""

    code = 18


class NotEnoughReplicas(ProtocolError):
    """Not enough replicas."""

    code = 19
    retriable = True


class NotEnoughReplicasAfterAppend(ProtocolError):
    """Not enough replicas after append."""

    code = 20
    retriable = True


class InvalidRequiredAcks(ProtocolError):
    """Invalid required acks."""

    code = 21


class IllegalGeneration(ProtocolError):
    """Illegal generation."""

    code = 22


class InconsistentGroupProtocol(ProtocolError):
    """Inconsistent group protocol."""

    code = 23


class InvalidGroupId(ProtocolError):
    """Invalid group id."""

    code = 24


class UnknownMemberId(ProtocolError):
    """Unknown member id."""

    code = 25


class InvalidSessionTimeout(ProtocolError):
    """Invalid session timeout."""

    code = 26


class RebalanceInProgress(ProtocolError):
    """Rebalance in progress."""

    code = 27


class InvalidCommitOffsetSize(ProtocolError):
    """Invalid commit offset size."""

    code = 28


class TopicAuthorizationFailed(ProtocolError):
    """Topic authorization failed."""

    code = 29


class GroupAuthorizationFailed(ProtocolError):
    """Group authorization failed."""

    code = 30


class ClusterAuthorizationFailed(ProtocolError):
    """Cluster authorization failed."""

    code = 31


class InvalidTimestamp(ProtocolError):
    """Invalid timestamp."""

    code = 32


class UnsupportedSaslMechanism(ProtocolError):
    """Unsupported sasl mechanism."""

    code = 33


class IllegalSaslState(ProtocolError):
    """Illegal sasl state."""

    code = 34


class UnsupportedVersion(ProtocolError):
    """Unsupported version."""

    code = 35


class TopicAlreadyExists(ProtocolError):
    """Topic already exists."""

    code = 36


class InvalidPartitions(ProtocolError):
    """Invalid partitions."""

    code = 37


class InvalidReplicationFactor(ProtocolError):
    """Invalid replication factor."""

    code = 38


class InvalidReplicaAssignment(ProtocolError):
    """Invalid replica assignment."""

    code = 39


class InvalidConfig(ProtocolError):
    """Invalid config."""

    code = 40


class NotController(ProtocolError):
    """Not controller."""

    code = 41
    retriable = True


class InvalidRequest(ProtocolError):
    """Invalid request."""

    code = 42


class UnsupportedForMessageFormat(ProtocolError):
    """Unsupported for message format."""

    code = 43


class PolicyViolation(ProtocolError):
    """Policy violation."""

    code = 44


class OutOfOrderSequenceNumber(ProtocolError):
    """Out of order sequence number."""

    code = 45


class DuplicateSequenceNumber(ProtocolError):
    """Duplicate sequence number."""

    code = 46


class InvalidProducerEpoch(ProtocolError):
    """Invalid producer epoch."""

    code = 47


class InvalidTxnState(ProtocolError):
    """Invalid txn state."""

    code = 48


class InvalidProducerIdMapping(ProtocolError):
    """Invalid producer id mapping."""

    code = 49


class InvalidTransactionTimeout(ProtocolError):
    """Invalid transaction timeout."""

    code = 50


class ConcurrentTransactions(ProtocolError):
    """Concurrent transactions."""

    code = 51
    retriable = True


class TransactionCoordinatorFenced(ProtocolError):
    """Transaction coordinator fenced."""

    code = 52


class TransactionalIdAuthorizationFailed(ProtocolError):
    """Transactional id authorization failed."""

    code = 53


class SecurityDisabled(ProtocolError):
    """Security disabled."""

    code = 54


class OperationNotAttempted(ProtocolError):
    """Operation not attempted."""

    code = 55


class KafkaStorageError(ProtocolError):
    """Kafka storage error."""

    code = 56
    retriable = True


class LogDirNotFound(ProtocolError):
    """Log dir not found."""

    code = 57


class SaslAuthenticationFailed(ProtocolError):
    """Sasl authentication failed."""

    code = 58


class UnknownProducerId(ProtocolError):
    """Unknown producer id."""

    code = 59


class ReassignmentInProgress(ProtocolError):
    """Reassignment in progress."""

    code = 60


class DelegationTokenAuthDisabled(ProtocolError):
    """Delegation token auth disabled."""

    code = 61


class DelegationTokenNotFound(ProtocolError):
    """Delegation token not found."""

    code = 62


class DelegationTokenOwnerMismatch(ProtocolError):
    """Delegation token owner mismatch."""

    code = 63


class DelegationTokenRequestNotAllowed(ProtocolError):
    """Delegation token request not allowed."""

    code = 64


class DelegationTokenAuthorizationFailed(ProtocolError):
    """Delegation token authorization failed."""

    code = 65


class DelegationTokenExpired(ProtocolError):
    """Delegation token expired."""

    code = 66


class InvalidPrincipalType(ProtocolError):
    """Invalid principal type."""

    code = 67


class NonEmptyGroup(ProtocolError):
    """Non empty group."""

    code = 68


class GroupIdNotFound(ProtocolError):
    """Group id not found."""

    code = 69


class FetchSessionIdNotFound(ProtocolError):
    """Fetch session id not found."""

    code = 70
    retriable = True


class InvalidFetchSessionEpoch(ProtocolError):
    """Invalid fetch session epoch."""

    code = 71
    retriable = True


class ListenerNotFound(ProtocolError):
    """Listener not found."""

    code = 72
    retriable = True


class TopicDeletionDisabled(ProtocolError):
    """Topic deletion disabled."""

    code = 73


class FencedLeaderEpoch(ProtocolError):
    """Fenced leader epoch."""

    code = 74
    retriable = True


class UnknownLeaderEpoch(ProtocolError):
    """Unknown leader epoch."""

    code = 75
    retriable = True


class UnsupportedCompressionType(ProtocolError):
    """Unsupported compression type."""

    code = 76


class StaleBrokerEpoch(ProtocolError):
    """Stale broker epoch."""

    code = 77


class OffsetNotAvailable(ProtocolError):
    """Offset not available."""

    code = 78
    retriable = True


class MemberIdRequired(ProtocolError):
    """Member id required."""

    code = 79


class PreferredLeaderNotAvailable(ProtocolError):
    """Preferred leader not available."""

    code = 80
    retriable = True


class GroupMaxSizeReached(ProtocolError):
    """Group max size reached."""

    code = 81


class FencedInstanceId(ProtocolError):
    """Fenced instance id."""

    code = 82


class EligibleLeadersNotAvailable(ProtocolError):
    """Eligible leaders not available."""

    code = 83
    retriable = True


class ElectionNotNeeded(ProtocolError):
    """Election not needed."""

    code = 84
    retriable = True


class NoReassignmentInProgress(ProtocolError):
    """No reassignment in progress."""

    code = 85


class GroupSubscribedToTopic(ProtocolError):
    """Group subscribed to topic."""

    code = 86


class InvalidRecord(ProtocolError):
    """Invalid record."""

    code = 87


class UnstableOffsetCommit(ProtocolError):
    """Unstable offset commit."""

    code = 88
    retriable = True


class ThrottlingQuotaExceeded(ProtocolError):
    """Throttling quota exceeded."""

    code = 89
    retriable = True


class ProducerFenced(ProtocolError):
    """Producer fenced."""

    code = 90


class ResourceNotFound(ProtocolError):
    """Resource not found."""

    code = 91


class DuplicateResource(ProtocolError):
    """Duplicate resource."""

    code = 92


class UnacceptableCredential(ProtocolError):
    """Unacceptable credential."""

    code = 93


class InconsistentVoterSet(ProtocolError):
    """Inconsistent voter set."""

    code = 94


class InvalidUpdateVersion(ProtocolError):
    """Invalid update version."""

    code = 95


class FeatureUpdateFailed(ProtocolError):
    """Feature update failed."""

    code = 96


class PrincipalDeserializationFailure(ProtocolError):
    """Principal deserialization failure."""

    code = 97


class SnapshotNotFound(ProtocolError):
    """Snapshot not found."""

    code = 98


class PositionOutOfRange(ProtocolError):
    """Position out of range."""

    code = 99


class UnknownTopicId(ProtocolError):
    """Unknown topic id."""

    code = 100
    retriable = True


class DuplicateBrokerRegistration(ProtocolError):
    """Duplicate broker registration."""

    code = 101


class BrokerIdNotRegistered(ProtocolError):
    """Broker id not registered."""

    code = 102


class InconsistentTopicId(ProtocolError):
    """Inconsistent topic id."""

    code = 103
    retriable = True


class InconsistentClusterId(ProtocolError):
    """Inconsistent cluster id."""

    code = 104


class TransactionalIdNotFound(ProtocolError):
    """Transactional id not found."""

    code = 105


class FetchSessionTopicIdError(ProtocolError):
    """Fetch session topic id error."""

    code = 106
    retriable = True


class IneligibleReplica(ProtocolError):
    """Ineligible replica."""

    code = 107


class NewLeaderElected(ProtocolError):
    """New leader elected."""

    code = 108


class OffsetMovedToTieredStorage(ProtocolError):
    """Offset moved to tiered storage."""

    code = 109


class FencedMemberEpoch(ProtocolError):
    """Fenced member epoch."""

    code = 110


class UnreleasedInstanceId(ProtocolError):
    """Unreleased instance id."""

    code = 111


class UnsupportedAssignor(ProtocolError):
    """Unsupported assignor."""

    code = 112


class StaleMemberEpoch(ProtocolError):
    """Stale member epoch."""

    code = 113


class MismatchedEndpointType(ProtocolError):
    """Mismatched endpoint type."""

    code = 114


class UnsupportedEndpointType(ProtocolError):
    """Unsupported endpoint type."""

    code = 115


class UnknownControllerId(ProtocolError):
    """Unknown controller id."""

    code = 116


class UnknownSubscriptionId(ProtocolError):
    """Unknown subscription id."""

    code = 117


class TelemetryTooLarge(ProtocolError):
    """Telemetry too large."""

    code = 118


class InvalidRegistration(ProtocolError):
    """Invalid registration."""

    code = 119


class TransactionAbortable(ProtocolError):
    """Transaction abortable."""

    code = 120


class InvalidRecordState(ProtocolError):
    """Invalid record state."""

    code = 121


class ShareSessionNotFound(ProtocolError):
    """Share session not found."""

    code = 122
    retriable = True


class InvalidShareSessionEpoch(ProtocolError):
    """Invalid share session epoch."""

    code = 123
    retriable = True


class FencedStateEpoch(ProtocolError):
    """Fenced state epoch."""

    code = 124


class InvalidVoterKey(ProtocolError):
    """Invalid voter key."""

    code = 125


class DuplicateVoter(ProtocolError):
    """Duplicate voter."""

    code = 126


class VoterNotFound(ProtocolError):
    """Voter not found."""

    code = 127


class InvalidRegularExpression(ProtocolError):
    """Invalid regular expression."""

    code = 128


class RebootstrapRequired(ProtocolError):
    """Rebootstrap required."""

    code = 129


class StreamsInvalidTopology(ProtocolError):
    """Streams invalid topology."""

    code = 130


class StreamsInvalidTopologyEpoch(ProtocolError):
    """Streams invalid topology epoch."""

    code = 131


class StreamsTopologyFenced(ProtocolError):
    """Streams topology fenced."""

    code = 132


class ShareSessionLimitReached(ProtocolError):
    """Share session limit reached."""

    code = 133
    retriable = True


NONE = 0
BY_CODE: dict[int, type[ProtocolError]] = {each.code: each for each in ProtocolError.__subclasses__()}
NAMES: dict[int, str] = {
    0: "NONE",
    **{code: re.sub(r"(?<!^)(?=[A-Z])", "_", each.__name__).upper() for code, each in BY_CODE.items()},
}


def error_for(code: int, message: str | None = None) -> ProtocolError:
    """The error behind a code that came over the wire."""
    return BY_CODE.get(code, UnknownServerError)(message)


def code_of(error: BaseException | None) -> int:
    """The code to answer with; anything that is not of the protocol is our own bug."""
    if error is None:
        return NONE
    return error.code if isinstance(error, ProtocolError) else UnknownServerError.code
