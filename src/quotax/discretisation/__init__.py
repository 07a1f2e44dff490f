"""Discretisation: what steps of finite size do that gradient flow does not, and what training leaves of each mode."""

from quotax.discretisation.backward_errors import ModifiedFlow as ModifiedFlow
from quotax.discretisation.backward_errors import modified_flow as modified_flow
from quotax.discretisation.broken_charges import ChargeRates as ChargeRates
from quotax.discretisation.broken_charges import charge_rates as charge_rates
from quotax.discretisation.charges_in_training import ChargeHistory as ChargeHistory
from quotax.discretisation.charges_in_training import charge_history as charge_history
from quotax.discretisation.mini_batches import MiniBatches as MiniBatches
from quotax.discretisation.mini_batches import mini_batches as mini_batches
from quotax.discretisation.network_filters import FilteredModes as FilteredModes
from quotax.discretisation.network_filters import filtered_modes as filtered_modes
from quotax.discretisation.schemes import Scheme as Scheme
from quotax.discretisation.schemes import gradient_descent as gradient_descent
from quotax.discretisation.schemes import heavy_ball as heavy_ball
from quotax.discretisation.schemes import implicit as implicit
from quotax.discretisation.schemes import nesterov as nesterov
from quotax.discretisation.spectral_filters import early_stopping as early_stopping
from quotax.discretisation.spectral_filters import filtered as filtered
from quotax.discretisation.spectral_filters import flow_until as flow_until
from quotax.discretisation.spectral_filters import weight_decay as weight_decay
