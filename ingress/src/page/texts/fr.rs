//! French.

use domain::branding::Language;

use super::{
    ChoiceTexts, DueTexts, ParcelTexts, PaymentTexts, ProgressTexts, RefusalTexts, StepTexts, Texts,
};

pub const TEXTS: Texts = Texts {
    language: Language::French,
    order: "Commande",
    progress: ProgressTexts {
        received: ["Reçue", "La boutique a reçu votre commande."],
        preparing: ["En préparation", "La boutique prépare votre commande."],
        partly_shipped: "Une partie de votre commande est en route. La boutique prépare le reste.",
        shipped: ["Expédiée", "Votre commande est en route."],
        delivered: "Votre commande a été livrée.",
        returned: "Votre commande est revenue à la boutique.",
        cancelled: ["Annulée", "Cette commande a été annulée."],
        not_shipping: [
            "Ne sera pas expédiée",
            "La boutique n’expédiera pas cette commande. Si vous ne vous y attendiez pas, contactez la boutique.",
        ],
    },
    steps: StepTexts {
        label: "Avancement",
        done: "Terminé",
        now: "En cours",
        next: "À venir",
        last: "Définitif",
    },
    payment: PaymentTexts {
        label: "Paiement",
        pending: "Pas encore payée",
        authorized: "Autorisé",
        partially_paid: "Payée en partie",
        paid: "Payée",
        partially_refunded: "Remboursée en partie",
        refunded: "Remboursée",
        voided: "Abandonné",
        expired: "Pas payée à temps",
        unknown: "Inconnu",
    },
    parcels: ParcelTexts {
        one: "Colis",
        several: "Colis",
        carrier: "Transporteur",
        number: "Numéro de suivi",
        status: "État",
        track_at: "Suivre sur",
        no_number: "La boutique n’a donné aucun numéro de suivi pour cette commande.",
        one_is_yours: "Plusieurs colis portent ce numéro. L’un d’eux est le vôtre.",
        announced: "Annoncé : le transporteur ne l’a peut-être pas encore",
        shipped: "Expédié",
        shipped_before: "Expédié avant l’annulation de la commande",
        out_for_delivery: "En cours de livraison",
        ready_for_pickup: "Prêt à être retiré",
        delivered: "Livré",
        not_delivered: "Le transporteur n’a pas pu le livrer",
        returned: "Revenu à la boutique",
        cancelled: "Annulé : il n’est pas envoyé",
    },
    due: DueTexts {
        title: "Paiement",
        amount: "Montant dû",
        how: "Payez sur le site de la boutique : cette page ne permet pas de payer. La confirmation de commande de la boutique y \
              mène.",
        nothing: "Rien à payer",
        ask_title: "Demandez à la boutique avant de payer",
        ask: "On ne sait pas ici combien il reste à payer pour cette commande, ni même s’il reste quelque chose. La boutique peut \
              vous le dire.",
        check: "Vérifiez le montant",
        link_asks: "Le lien que vous avez suivi demande {}",
        link_is_garbled: "Le lien que vous avez suivi demande un montant illisible",
        pay_no_more: "le montant dû pour cette commande est de {}. Ne payez pas plus de {}.",
        do_not_pay: "rien n’est dû pour cette commande. Ne payez pas.",
        ask_before: "demandez à la boutique avant de payer quoi que ce soit.",
        cancelled: "Cette commande a été annulée : rien n’est dû.",
        paid: "Cette commande a été payée. Merci.",
        partially_refunded: "Cette commande a été payée, et une partie de l’argent a été remboursée. Rien n’est dû.",
        refunded: "L’argent de cette commande a été remboursé. Rien n’est dû.",
        voided: "Le paiement de cette commande a été abandonné : rien n’est dû.",
        authorized: "Le paiement est autorisé : la somme est réservée, et la boutique l’encaissera. Vous n’avez rien d’autre à \
                     faire.",
        zero: "Il ne reste rien à payer pour cette commande.",
    },
    choice: ChoiceTexts {
        title: "De quelle boutique vient-elle ?",
        several: "Plusieurs boutiques ont une commande avec ce numéro. Choisissez la vôtre.",
        unnamed: "Une boutique sans nom",
    },
    refusals: RefusalTexts {
        order_not_found: [
            "Commande introuvable",
            "Il n’y a pas de commande avec ce numéro. Une nouvelle commande peut mettre une minute à apparaître. Si vous voyez \
             encore cette page ensuite, demandez le bon lien à la boutique.",
        ],
        parcel_not_found: [
            "Colis introuvable",
            "Aucun colis avec ce numéro de suivi n’est connu ici. Il n’a peut-être pas encore été remis, ou n’est plus en route.",
        ],
        incomplete: [
            "Ce lien n’est pas complet",
            "Scannez le code à nouveau, ou ouvrez le lien tel que vous l’avez reçu.",
        ],
        too_many: [
            "Trop de demandes",
            "Beaucoup de pages ont été ouvertes depuis votre réseau. Attendez un moment, puis rechargez cette page.",
        ],
        later: [
            "Réessayez dans un instant",
            "La commande ne peut pas être consultée pour le moment. Votre lien est correct.",
        ],
        other: [
            "Une erreur est survenue",
            "Cette page ne peut pas être affichée. Réessayez plus tard.",
        ],
    },
    questions: "Des questions ?",
    ask_the_shop: "Contacter la boutique",
    scan: "Scannez pour ouvrir cette page sur un téléphone",
    updated: "Mis à jour le",
    decimal: ',',
    date: "{day} {month} {year}",
    months: [
        "janvier",
        "février",
        "mars",
        "avril",
        "mai",
        "juin",
        "juillet",
        "août",
        "septembre",
        "octobre",
        "novembre",
        "décembre",
    ],
};
